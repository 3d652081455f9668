/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * units.h - quantities as people write them: "48 Gbit/s", "5 KB", "100 us".
 *
 * A quantity is a decimal number, perhaps blanks, and a unit. Prefixes k, M, G
 * and T are powers of 1000, Ki, Mi and Gi of 1024. The result is a whole number
 * of the base unit (bytes/s, operations/s, bytes, ns), rounded down.
 */
#ifndef JSTD_UNITS_H
#define JSTD_UNITS_H

#include <stdint.h>

struct jstd_unit {
	const char *name; /* NULL ends a table */
	uint64_t numerator; /* value of one unit = numerator / denominator */
	uint64_t denominator;
};

extern const struct jstd_unit jstd_units_rate[];  /* base: bytes/s */
extern const struct jstd_unit jstd_units_ops[];	  /* base: operations/s */
extern const struct jstd_unit jstd_units_size[];  /* base: bytes */
extern const struct jstd_unit jstd_units_time[];  /* base: ns */
extern const struct jstd_unit jstd_units_count[]; /* a bare number */

/*
 * 0; -EINVAL: not a number; -ENOENT: a number, but the unit is not in @units;
 * -ERANGE: does not fit.
 */
int jstd_quantity_parse(const char *text, const struct jstd_unit *units, uint64_t *value);

#endif
