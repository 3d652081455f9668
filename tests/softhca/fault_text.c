// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Text of the rules: one a line, "subject [condition=value ...] action[=value]". Tables say
 * which word belongs to which subject.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "wqe.h"

#define TEXT_LEN 65536
#define NS_PER_US 1000ull
#define ON(subject) (1u << HCA_FAULT_##subject)
#define ON_COUNTED (ON(COMMAND) | ON(MESSAGE) | ON(COMPLETION) | ON(EVENT))

struct name { const char *name; uint32_t value; };

static const struct name subjects[] = {
	{ "command", HCA_FAULT_COMMAND }, { "message", HCA_FAULT_MESSAGE },
	{ "completion", HCA_FAULT_COMPLETION }, { "event", HCA_FAULT_EVENT },
	{ "at", HCA_FAULT_AT }, { NULL, 0 },
};

static const struct name commands[] = {
	{ "open_device", HCA_CTL_OPEN_CTX }, { "close_device", HCA_CTL_CLOSE_CTX },
	{ "alloc_pd", HCA_CTL_ALLOC_PD }, { "dealloc_pd", HCA_CTL_DEALLOC_PD },
	{ "reg_mr", HCA_CTL_REG_MR }, { "rereg_mr", HCA_CTL_REREG_MR },
	{ "dereg_mr", HCA_CTL_DEREG_MR }, { "create_channel", HCA_CTL_CREATE_CHAN },
	{ "create_cq", HCA_CTL_CREATE_CQ }, { "resize_cq", HCA_CTL_RESIZE_CQ },
	{ "destroy_cq", HCA_CTL_DESTROY_CQ }, { "create_srq", HCA_CTL_CREATE_SRQ },
	{ "modify_srq", HCA_CTL_MODIFY_SRQ }, { "query_srq", HCA_CTL_QUERY_SRQ },
	{ "destroy_srq", HCA_CTL_DESTROY_SRQ }, { "create_qp", HCA_CTL_CREATE_QP },
	{ "modify_qp", HCA_CTL_MODIFY_QP }, { "query_qp", HCA_CTL_QUERY_QP },
	{ "destroy_qp", HCA_CTL_DESTROY_QP }, { NULL, 0 },
};

static const struct name opcodes[] = {
	{ "send", HCA_OP_SEND }, { "send_imm", HCA_OP_SEND_IMM }, { "send_inv", HCA_OP_SEND_INV },
	{ "write", HCA_OP_WRITE }, { "write_imm", HCA_OP_WRITE_IMM }, { "read", HCA_OP_READ },
	{ "cas", HCA_OP_CMP_SWAP }, { "add", HCA_OP_FETCH_ADD }, { NULL, 0 },
};

/* What the card can say in a completion; a flush is no answer. */
static const struct name statuses[] = {
	{ "loc_len_err", IBV_WC_LOC_LEN_ERR }, { "loc_qp_op_err", IBV_WC_LOC_QP_OP_ERR },
	{ "loc_prot_err", IBV_WC_LOC_PROT_ERR }, { "bad_resp_err", IBV_WC_BAD_RESP_ERR },
	{ "loc_access_err", IBV_WC_LOC_ACCESS_ERR }, { "rem_inv_req_err", IBV_WC_REM_INV_REQ_ERR },
	{ "rem_access_err", IBV_WC_REM_ACCESS_ERR }, { "rem_op_err", IBV_WC_REM_OP_ERR },
	{ "retry_exc_err", IBV_WC_RETRY_EXC_ERR }, { "rnr_retry_exc_err", IBV_WC_RNR_RETRY_EXC_ERR },
	{ "rem_abort_err", IBV_WC_REM_ABORT_ERR }, { NULL, 0 },
};

struct context {
	struct hca_faults *f;
	const struct hca_config *c;
	struct hca_fault_rule *r;
	const char *key, *value;
	char *err;
	size_t err_size;
};

__attribute__((format(printf, 2, 3)))
static int fail(const struct context *x, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(x->err, x->err_size, format, args);
	va_end(args);
	return -EINVAL;
}

static const struct name *look_up(const struct name *table, const char *text)
{
	while (table->name && strcmp(table->name, text))
		table++;
	return table->name ? table : NULL;
}

static int refuse_name(const struct context *x, const struct name *table, const char *value)
{
	char list[HCA_ERROR_LEN / 2] = "";
	size_t n = 0;

	for (; table->name && n < sizeof(list); table++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
				      table->name);
	return fail(x, "%s: '%.40s': accepted are %s", x->key, value, list);
}

static int number(const struct context *x, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)*x->value))
		*out = strtoull(x->value, &end, 0);
	if (!end || *end || errno || *out < min || *out > max)
		return fail(x, "%s: '%.40s' is not a whole number from %" PRIu64 " to %" PRIu64,
			    x->key, x->value, min, max);
	return 0;
}

static int number32(const struct context *x, uint64_t min, uint64_t max, uint32_t *out)
{
	uint64_t v = 0;
	int rc = number(x, min, max, &v);

	if (!rc)
		*out = (uint32_t)v;
	return rc;
}

static int duration(const struct context *x, uint64_t unit_ns, uint64_t min, uint64_t *out)
{
	int rc = number(x, min, HCA_FAULT_MAX_NS / unit_ns, out);

	*out *= unit_ns;
	return rc;
}

/* ---- conditions ---- */

static int set_host(const struct context *x)
{
	x->r->host = hca_host_index(x->c, x->value);
	return x->r->host >= 0 ? 0 : fail(x, "host: '%.40s': there is no such host, the first "
					  "of %u is '%s'", x->value, x->c->hosts, x->c->host[0]);
}

static int set_op(const struct context *x)
{
	const struct name *table = x->r->on == HCA_FAULT_COMMAND ? commands : opcodes;
	const struct name *found = look_up(table, x->value);

	if (!found)
		return refuse_name(x, table, x->value);
	x->r->op = (int32_t)found->value;
	return 0;
}

static int set_qp(const struct context *x)
{
	return number32(x, HCA_FIRST_QPN, HCA_MAX_QPS - 1, &x->r->qp);
}

static int set_nth(const struct context *x)
{
	return number32(x, 1, UINT32_MAX, &x->r->nth);
}

static int set_every(const struct context *x)
{
	return number32(x, 1, UINT32_MAX, &x->r->every);
}

static int set_times(const struct context *x)
{
	return number32(x, 1, UINT32_MAX, &x->r->times);
}

static int set_per_million(const struct context *x)
{
	return number32(x, 1, 1000000, &x->r->per_million);
}

static int set_ms(const struct context *x)
{
	return duration(x, HCA_NS_PER_MS, 0, &x->r->at_ns);
}

/* ---- actions ---- */

/* By name, for numbers differ between machines; a number is taken too. */
static int set_errno(const struct context *x)
{
	for (int e = 1; e < 134; e++) {
		const char *name = strerrorname_np(e);

		if (name && !strcmp(name, x->value)) {
			x->r->value = (uint64_t)e;
			return 0;
		}
	}
	if (isdigit((unsigned char)*x->value))
		return number(x, 1, 133, &x->r->value);
	return fail(x, "%s: '%.40s': accepted are names such as ENOMEM, and 1 to 133", x->key,
		    x->value);
}

static int set_us(const struct context *x)
{
	return duration(x, NS_PER_US, 1, &x->r->value);
}

static int set_freeze_ms(const struct context *x)
{
	return duration(x, HCA_NS_PER_MS, 1, &x->r->value);
}

static int set_status(const struct context *x)
{
	const struct name *found = look_up(statuses, x->value);

	if (!found)
		return refuse_name(x, statuses, x->value);
	x->r->value = found->value;
	return 0;
}

/* act NONE: a condition; no set: stands without a value. */
static const struct word {
	const char *key;
	uint32_t on;
	uint8_t act;
	int (*set)(const struct context *x);
} words[] = {
	{ "host", ON_COUNTED | ON(AT), HCA_FAULT_NONE, set_host },
	{ "op", ON(COMMAND) | ON(MESSAGE), HCA_FAULT_NONE, set_op },
	{ "qp", ON(MESSAGE) | ON(COMPLETION), HCA_FAULT_NONE, set_qp },
	{ "nth", ON_COUNTED, HCA_FAULT_NONE, set_nth },
	{ "every", ON_COUNTED, HCA_FAULT_NONE, set_every },
	{ "times", ON_COUNTED, HCA_FAULT_NONE, set_times },
	{ "per_million", ON_COUNTED, HCA_FAULT_NONE, set_per_million },
	{ "ms", ON(AT), HCA_FAULT_NONE, set_ms },
	{ "fail", ON(COMMAND), HCA_FAULT_FAIL, set_errno },
	{ "delay_us", ON(MESSAGE) | ON(EVENT), HCA_FAULT_DELAY, set_us },
	{ "drop", ON(MESSAGE) | ON(EVENT), HCA_FAULT_DROP, NULL },
	{ "rnr", ON(MESSAGE), HCA_FAULT_RNR, NULL },
	{ "status", ON(MESSAGE), HCA_FAULT_STATUS, set_status },
	{ "overrun", ON(COMPLETION), HCA_FAULT_OVERRUN, NULL },
	{ "port_down", ON(AT), HCA_FAULT_PORT_DOWN, NULL },
	{ "port_up", ON(AT), HCA_FAULT_PORT_UP, NULL },
	{ "fatal", ON(AT), HCA_FAULT_FATAL, NULL },
	{ "freeze_ms", ON(AT), HCA_FAULT_FREEZE, set_freeze_ms },
	{ "kill", ON(AT), HCA_FAULT_KILL, NULL },
};

#define WORDS (sizeof(words) / sizeof(words[0]))

static int refuse_word(const struct context *x, const char *subject)
{
	char list[HCA_ERROR_LEN / 2] = "";
	size_t n = 0;

	for (size_t i = 0; i < WORDS && n < sizeof(list); i++)
		if (words[i].on >> x->r->on & 1)
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s%s", n ? ", " : "",
					      words[i].key, words[i].set ? "=" : "");
	return fail(x, "'%.40s': after '%s' are accepted %s", x->key, subject, list);
}

static int take_word(struct context *x, const char *subject, char *text, uint32_t *taken)
{
	char *equals = strchr(text, '=');
	size_t i = 0;

	if (equals)
		*equals = 0;
	x->key = text;
	x->value = equals ? equals + 1 : NULL;
	while (i < WORDS && (strcmp(words[i].key, text) || !(words[i].on >> x->r->on & 1)))
		i++;
	if (i == WORDS)
		return refuse_word(x, subject);
	if (*taken >> i & 1)
		return fail(x, "'%s' is said twice", text);
	*taken |= 1u << i;
	if (!x->value != !words[i].set)
		return fail(x, "'%s': %s", text, words[i].set ? "a value is wanted, as in "
			    "key=value" : "takes no value");
	if (words[i].act && x->r->act)
		return fail(x, "'%s': a rule has one action", text);
	x->r->act = words[i].act ? words[i].act : x->r->act;
	return words[i].set ? words[i].set(x) : 0;
}

static bool has_word(uint32_t taken, const char *key)
{
	for (size_t i = 0; i < WORDS; i++)
		if (!strcmp(words[i].key, key))
			return taken >> i & 1;
	return false;
}

/* What no single word can check. */
static int check_rule(const struct context *x, const char *subject, uint32_t taken)
{
	const struct hca_fault_rule *r = x->r;

	if (!r->act)
		return fail(x, "'%s': the action is missing", subject);
	if (r->on == HCA_FAULT_AT && !has_word(taken, "ms"))
		return fail(x, "'at': the time is missing, as in ms=500");
	if (r->act == HCA_FAULT_RNR && r->op >= 0 && r->op != HCA_OP_WRITE_IMM &&
	    r->op > HCA_OP_SEND_INV)
		return fail(x, "rnr: accepted op are send, send_imm, send_inv, write_imm: "
			    "others need no receive");
	return 0;
}

static int take_seed(struct context *x, char *rest)
{
	x->key = "seed";
	x->value = strtok_r(NULL, " \t", &rest);
	if (!x->value || strtok_r(NULL, " \t", &rest))
		return fail(x, "'seed': one value is wanted");
	return number(x, 0, UINT64_MAX, &x->f->seed);
}

static int take_rule(struct context *x, const char *subject, char *rest)
{
	const struct name *on = look_up(subjects, subject);
	uint32_t taken = 0;
	int rc = 0;

	x->key = "rule";
	if (!on)
		return fail(x, "'%.40s': accepted are seed, command, message, completion, event "
			    "and at", subject);
	if (x->f->rules == HCA_FAULT_RULES)
		return fail(x, "'%s': at most %d rules", subject, HCA_FAULT_RULES);
	x->r->on = (uint8_t)on->value;
	for (char *w; !rc && (w = strtok_r(NULL, " \t", &rest));)
		rc = take_word(x, subject, w, &taken);
	if (!rc)
		rc = check_rule(x, subject, taken);
	x->f->rules += !rc;
	return rc;
}

static int take_line(struct context *x, uint32_t number, char *line)
{
	char *rest, *first;

	line[strcspn(line, "#\r")] = 0;
	first = strtok_r(line, " \t", &rest);
	if (!first)
		return 0;
	if (!strcmp(first, "seed"))
		return take_seed(x, rest);
	/* One past the last rule is written only when there is room; see take_rule(). */
	x->r = &x->f->rule[x->f->rules % HCA_FAULT_RULES];
	if (x->f->rules < HCA_FAULT_RULES)
		*x->r = (struct hca_fault_rule){
			.line = number, .host = -1, .op = -1, .per_million = 1000000,
		};
	return take_rule(x, first, rest);
}

int hca_fault_parse(struct hca_faults *f, const struct hca_config *c, const char *name,
		    const char *text, char *err, size_t err_size)
{
	char line[HCA_FAULT_LINE_LEN], why[HCA_ERROR_LEN];
	struct context x = { .f = f, .c = c, .err = why, .err_size = sizeof(why) };

	memset(f, 0, sizeof(*f));
	f->seed = c->seed;
	for (uint32_t n = 1; *text; n++) {
		size_t length = strcspn(text, "\n");
		int rc = 0;

		if (length >= sizeof(line)) {
			rc = fail(&x, "%zu characters are too long a line, 0 to %zu are accepted",
				  length, sizeof(line) - 1);
		} else {
			memcpy(line, text, length);
			line[length] = 0;
			rc = take_line(&x, n, line);
		}
		if (rc) {
			snprintf(err, err_size, "%.200s:%u: %s", name, n, why);
			return rc;
		}
		text += length + (text[length] == '\n');
	}
	return 0;
}

int hca_fault_load(struct hca_faults *f, const struct hca_config *c, const char *path,
		   char *err, size_t err_size)
{
	static char text[TEXT_LEN];
	FILE *in = fopen(path, "re");
	size_t n = in ? fread(text, 1, sizeof(text), in) : 0;
	int rc = !in || ferror(in) ? -errno : 0;

	if (in)
		fclose(in);
	if (rc) {
		snprintf(err, err_size, "%.200s: %s", path, strerror(-rc));
		return rc;
	}
	if (n == sizeof(text) || memchr(text, 0, n)) {
		snprintf(err, err_size, "%.200s: not a text of 0 to %zu bytes", path,
			 sizeof(text) - 1);
		return -EINVAL;
	}
	text[n] = 0;
	return hca_fault_parse(f, c, path, text, err, err_size);
}
