// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* class.c - the names of the classes, and weights as text. */
#include <errno.h>
#include <string.h>

#include "core.h"

static const char *const class_names[JST_CLASSES] = {
	[JST_CLASS_BANDWIDTH] = "bandwidth",
	[JST_CLASS_THROUGHPUT] = "throughput",
	[JST_CLASS_LATENCY] = "latency",
};

const char *jst_class_name(uint32_t class)
{
	return class < JST_CLASSES ? class_names[class] : "?";
}

int jst_class_parse(const char *text, enum jst_class *class)
{
	for (unsigned int i = 0; i < JST_CLASSES; i++) {
		if (!strcmp(text, class_names[i])) {
			*class = i;
			return 0;
		}
	}
	return -EINVAL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int jst_weight_parse(const char *text, uint32_t *weight_milli)
{
	uint64_t milli = 0;
	uint32_t unit = 1000;

	if (!is_digit(*text))
		return -EINVAL;
	for (; is_digit(*text); text++) {
		milli = milli * 10 + (uint64_t)(*text - '0') * 1000;
		if (milli > JST_WEIGHT_MILLI_MAX)
			return -ERANGE;
	}
	if (*text == '.') {
		for (text++; is_digit(*text) && unit > 1; text++) {
			unit /= 10;
			milli += (uint64_t)(*text - '0') * unit;
		}
	}
	if (*text)
		return -EINVAL;
	if (milli < JST_WEIGHT_MILLI_MIN || milli > JST_WEIGHT_MILLI_MAX)
		return -ERANGE;
	*weight_milli = (uint32_t)milli;
	return 0;
}
