// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* units.c - quantities with units, in whole numbers only. */
#include "units.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define KILO 1000ull
#define MEGA 1000000ull
#define GIGA 1000000000ull
#define TERA 1000000000000ull
#define KIBI (1ull << 10)
#define MEBI (1ull << 20)
#define GIBI (1ull << 30)

#define FRACTION_DIGITS_MAX 9

const struct jstd_unit jstd_units_rate[] = {
	{ "bit/s", 1, 8 },	{ "kbit/s", KILO, 8 },	{ "Mbit/s", MEGA, 8 },
	{ "Gbit/s", GIGA, 8 },	{ "Tbit/s", TERA, 8 },	{ "B/s", 1, 1 },
	{ "kB/s", KILO, 1 },	{ "KB/s", KILO, 1 },	{ "MB/s", MEGA, 1 },
	{ "GB/s", GIGA, 1 },	{ "KiB/s", KIBI, 1 },	{ "MiB/s", MEBI, 1 },
	{ "GiB/s", GIBI, 1 },	{ NULL, 0, 0 },
};

const struct jstd_unit jstd_units_ops[] = {
	{ "op/s", 1, 1 },      { "kop/s", KILO, 1 }, { "Mop/s", MEGA, 1 },
	{ "Gop/s", GIGA, 1 },  { NULL, 0, 0 },
};

const struct jstd_unit jstd_units_size[] = {
	{ "B", 1, 1 },	    { "kB", KILO, 1 },	{ "KB", KILO, 1 },  { "MB", MEGA, 1 },
	{ "KiB", KIBI, 1 }, { "MiB", MEBI, 1 }, { NULL, 0, 0 },
};

const struct jstd_unit jstd_units_time[] = {
	{ "ns", 1, 1 }, { "us", KILO, 1 }, { "ms", MEGA, 1 }, { "s", GIGA, 1 }, { NULL, 0, 0 },
};

const struct jstd_unit jstd_units_count[] = {
	{ "", 1, 1 },
	{ NULL, 0, 0 },
};

/* The number as mantissa / scale, so that "0.1" is exact. */
struct decimal {
	uint64_t mantissa;
	uint64_t scale;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int digit_add(struct decimal *number, char c)
{
	if (__builtin_mul_overflow(number->mantissa, 10, &number->mantissa) ||
	    __builtin_add_overflow(number->mantissa, (uint64_t)(c - '0'), &number->mantissa))
		return -ERANGE;
	return 0;
}

static int decimal_parse(const char **text, struct decimal *number)
{
	const char *at = *text;
	int digits, ret;

	number->mantissa = 0;
	number->scale = 1;
	if (!is_digit(*at))
		return -EINVAL;
	for (; is_digit(*at); at++) {
		ret = digit_add(number, *at);
		if (ret)
			return ret;
	}
	if (*at == '.') {
		at++;
		for (digits = 0; is_digit(*at); at++, digits++) {
			ret = digits < FRACTION_DIGITS_MAX ? digit_add(number, *at) : -EINVAL;
			if (ret)
				return ret;
			number->scale *= 10;
		}
		if (!digits)
			return -EINVAL;
	}
	*text = at;
	return 0;
}

static const struct jstd_unit *unit_find(const struct jstd_unit *units, const char *name)
{
	for (; units->name; units++) {
		if (!strcmp(units->name, name))
			return units;
	}
	return NULL;
}

int jstd_quantity_parse(const char *text, const struct jstd_unit *units, uint64_t *value)
{
	const struct jstd_unit *unit;
	struct decimal number;
	unsigned __int128 product;
	int ret;

	ret = decimal_parse(&text, &number);
	if (ret)
		return ret;
	text += strspn(text, " \t");
	unit = unit_find(units, text);
	if (!unit)
		return -ENOENT;
	product = (unsigned __int128)number.mantissa * unit->numerator;
	product /= (unsigned __int128)unit->denominator * number.scale;
	if (product > UINT64_MAX)
		return -ERANGE;
	*value = (uint64_t)product;
	return 0;
}
