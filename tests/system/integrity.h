/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* integrity.h - the options of the program integrity. */
#ifndef T_INTEGRITY_H
#define T_INTEGRITY_H

#include "side.h"
#include "traffic.h"

struct t_integrity_options {
	struct t_side_options side;
	struct t_traffic_options traffic;
	uint64_t count;
	uint64_t timeout_ns;
	uint32_t list;
	unsigned int linger_ms;
	unsigned int seconds; /* 0: as many operations as `count` says */
};

/* Fills @options from the command line, or says what is wrong with it and exits. */
void t_integrity_parse(struct t_integrity_options *options, int argc, char **argv);

#endif
