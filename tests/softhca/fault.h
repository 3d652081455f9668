/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Faults on demand: rules that say what goes wrong, for whom and when.
 *
 * Pure: no clock, no allocation, no segment; time is an argument. A rule keeps nothing but
 * two counters, and chance is a function of the seed, the rule and the counter: the same
 * occurrences in the same order have the same fate. softhca(1) describes the text.
 *
 * The rules lie in the shared segment, where only the driver evaluates them.
 */
#ifndef SOFTHCA_FAULT_H
#define SOFTHCA_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define HCA_FAULT_RULES 64
#define HCA_FAULT_LINE_LEN 512
#define HCA_FAULT_MAX_NS (3600ull * 1000000000)
#define HCA_FAULT_NEVER UINT64_MAX

/* What a rule is about. */
enum hca_fault_on {
	HCA_FAULT_COMMAND, HCA_FAULT_MESSAGE, HCA_FAULT_COMPLETION, HCA_FAULT_EVENT,
	HCA_FAULT_AT,
};

enum hca_fault_act {
	HCA_FAULT_NONE,
	HCA_FAULT_FAIL,			/* command; value: errno */
	HCA_FAULT_DELAY,		/* message, event; value: ns */
	HCA_FAULT_DROP,			/* message: lost on the way; event: never sent */
	HCA_FAULT_RNR,			/* message: the receiver is not ready */
	HCA_FAULT_STATUS,		/* message; value: enum ibv_wc_status */
	HCA_FAULT_OVERRUN,		/* completion */
	HCA_FAULT_PORT_DOWN, HCA_FAULT_PORT_UP, HCA_FAULT_FATAL,
	HCA_FAULT_FREEZE,		/* value: ns */
	HCA_FAULT_KILL,
};

struct hca_fault_rule {
	uint32_t line;			/* in the file, for reports */
	uint8_t on, act;
	int32_t host, op;		/* -1: any */
	uint32_t qp;			/* 0: any */
	uint32_t nth, every, times;	/* 0: not asked for */
	uint32_t per_million;		/* 1000000: always */
	uint64_t value;
	uint64_t at_ns;			/* HCA_FAULT_AT: since the rules are in force */
	uint64_t seen, acted;		/* occurrences that fit, and those it acted upon */
};

struct hca_faults {
	uint64_t seed, begin_ns;
	uint32_t rules;
	struct hca_fault_rule rule[HCA_FAULT_RULES];
};

/* Something that happens. op: enum hca_ctl_op of a command, enum hca_op of a message. */
struct hca_fault_case { uint8_t on; uint32_t host, qp, op; };

/* The rule to obey, or NULL. Every rule that fits counts; of those that would act the first does. */
const struct hca_fault_rule *hca_fault_match(struct hca_faults *f, const struct hca_fault_case *c);
/*
 * The next rule whose time has come, once for each rule; NULL = none, and *next_ns is when
 * to ask again (HCA_FAULT_NEVER: no need to).
 */
const struct hca_fault_rule *hca_fault_due(struct hca_faults *f, uint64_t now_ns,
					   uint64_t *next_ns);

/* fault_text.c: rules for the hosts of @c. 0 or -errno, and "name:line: ..." in err. */
int hca_fault_parse(struct hca_faults *f, const struct hca_config *c, const char *name,
		    const char *text, char *err, size_t err_size);
int hca_fault_load(struct hca_faults *f, const struct hca_config *c, const char *path,
		   char *err, size_t err_size);

#endif
