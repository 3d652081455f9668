// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_fault.c - rules of faults: what the text means, and which occurrences they hit. */
#include <errno.h>
#include <string.h>

#include "../softhca/fault.h"
#include "../softhca/wqe.h"
#include "unit.h"

#define MS 1000000ull

static struct hca_config c;
static struct hca_faults f;
static char err[HCA_ERROR_LEN];

static int parse(const char *text)
{
	hca_config_default(&c);
	err[0] = 0;
	return hca_fault_parse(&f, &c, "rules", text, err, sizeof(err));
}

static void parse_ok(const char *text)
{
	ck_assert_msg(!parse(text), "%s", err);
}

static void refused(const char *text, const char *words)
{
	ck_assert_int_eq(parse(text), -EINVAL);
	ck_assert_msg(strstr(err, words), "%s: '%s' says nothing of '%s'", text, err, words);
}

static uint8_t message(uint32_t host, uint32_t qp, uint32_t op)
{
	const struct hca_fault_case what = {
		.on = HCA_FAULT_MESSAGE, .host = host, .qp = qp, .op = op,
	};
	const struct hca_fault_rule *r = hca_fault_match(&f, &what);

	return r ? r->act : HCA_FAULT_NONE;
}

/* Which of the first 64 writes are hit: bit n - 1 is the n-th. */
static uint64_t hits(const char *text)
{
	uint64_t map = 0;

	parse_ok(text);
	for (int n = 0; n < 64; n++)
		map |= (uint64_t)(message(0, 64, HCA_OP_WRITE) != HCA_FAULT_NONE) << n;
	return map;
}

START_TEST(errors_name_the_line_the_value_and_what_is_accepted)
{
	refused("disk drop\n", "'disk': accepted are seed, command, message");
	refused("# fine\n\nmessage percent=3 drop\n", "rules:3: 'percent': after 'message' are "
		"accepted host=, op=, qp=");
	refused("message nth=0 drop", "nth: '0' is not a whole number from 1 to 4294967295");
	refused("message nth=-1 drop", "nth: '-1'");
	refused("message nth= drop", "nth: ''");
	refused("message per_million=1000001 drop", "'1000001' is not a whole number from 1 to "
		"1000000");
	refused("message qp=63 drop", "qp: '63' is not a whole number from 64 to");
	refused("message delay_us=3600000001", "from 1 to 3600000000");
	refused("message host=z drop", "host: 'z': there is no such host");
	refused("message op=create_qp drop", "op: 'create_qp': accepted are send, send_imm");
	refused("command op=send fail=EIO", "op: 'send': accepted are open_device");
	refused("command op=create_qp fail=EWRONG", "fail: 'EWRONG': accepted are names such as");
	refused("command fail=0", "fail: '0' is not a whole number from 1 to 133");
	refused("message status=success", "status: 'success': accepted are loc_len_err");
	refused("message drop rnr", "'rnr': a rule has one action");
	refused("message drop drop", "'drop' is said twice");
	refused("message drop=1", "'drop': takes no value");
	refused("message nth drop", "'nth': a value is wanted");
	refused("message nth=1", "the action is missing");
	refused("message op=write rnr", "rnr: accepted op are");
	refused("event rnr", "'rnr': after 'event' are accepted");
	refused("at port_down", "the time is missing");
	refused("at ms=3600001 kill", "from 0 to 3600000");
	refused("at ms=1 freeze_ms=0", "freeze_ms: '0'");
	refused("seed", "'seed': one value");
	refused("seed x", "seed: 'x'");
	refused("seed 1 2", "'seed': one value");
}
END_TEST

START_TEST(there_is_a_limit_to_rules_and_lines)
{
	char text[HCA_FAULT_RULES * 16 + 1024] = "";

	for (int i = 0; i < HCA_FAULT_RULES; i++)
		strcat(text, "message drop\n");
	parse_ok(text);
	ck_assert_uint_eq(f.rules, HCA_FAULT_RULES);
	strcat(text, "message rnr\n");
	refused(text, "rules:65: 'message': at most 64 rules");
	ck_assert_uint_eq(f.rule[0].act, HCA_FAULT_DROP);
	memset(text, ' ', 600);
	strcpy(text + 600, "\n");
	refused(text, "600 characters are too long a line, 0 to 511");
}
END_TEST

START_TEST(a_rule_says_what_was_written)
{
	parse_ok("seed 42 # of chance\n"
		 "\n"
		 "command host=b op=reg_mr nth=2 fail=ENOSPC\n"
		 "message\thost=a qp=0x41 op=read every=3 times=7 per_million=10 delay_us=250\r\n"
		 "message status=rem_access_err\n"
		 "completion qp=70 overrun\n"
		 "event drop\n"
		 "at ms=1500 host=b freeze_ms=20");
	ck_assert_uint_eq(f.seed, 42);
	ck_assert_uint_eq(f.rules, 6);
	ck_assert_uint_eq(f.rule[0].line, 3);
	ck_assert_int_eq(f.rule[0].host, 1);
	ck_assert_int_eq(f.rule[0].op, HCA_CTL_REG_MR);
	ck_assert_uint_eq(f.rule[0].value, ENOSPC);
	ck_assert_uint_eq(f.rule[1].qp, 0x41);
	ck_assert_uint_eq(f.rule[1].every, 3);
	ck_assert_uint_eq(f.rule[1].times, 7);
	ck_assert_uint_eq(f.rule[1].per_million, 10);
	ck_assert_uint_eq(f.rule[1].value, 250000);
	ck_assert_uint_eq(f.rule[2].value, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(f.rule[2].host, -1);
	ck_assert_uint_eq(f.rule[3].act, HCA_FAULT_OVERRUN);
	ck_assert_uint_eq(f.rule[5].at_ns, 1500 * MS);
	ck_assert_uint_eq(f.rule[5].value, 20 * MS);
}
END_TEST

START_TEST(no_rules_hit_nothing)
{
	uint64_t next;

	ck_assert_uint_eq(hits("# nothing\n"), 0);
	ck_assert_ptr_null(hca_fault_due(&f, 1, &next));
	ck_assert_uint_eq(next, HCA_FAULT_NEVER);
}
END_TEST

START_TEST(occurrences_are_counted)
{
	ck_assert_uint_eq(hits("message drop"), UINT64_MAX);
	ck_assert_uint_eq(hits("message nth=3 drop"), 1 << 2);
	ck_assert_uint_eq(hits("message times=2 drop"), 3);
	ck_assert_uint_eq(hits("message every=20 drop"), 1ull << 19 | 1ull << 39 | 1ull << 59);
	ck_assert_uint_eq(hits("message nth=5 every=20 times=2 drop"), 1ull << 4 | 1ull << 24);
	ck_assert_uint_eq(hits("message op=write nth=64 drop"), 1ull << 63);
	ck_assert_uint_eq(hits("message op=read drop"), 0);
	ck_assert_uint_eq(f.rule[0].seen, 0);
}
END_TEST

START_TEST(conditions_all_have_to_hold)
{
	parse_ok("message host=b qp=65 op=send drop\n");
	ck_assert_uint_eq(message(0, 65, HCA_OP_SEND), HCA_FAULT_NONE);
	ck_assert_uint_eq(message(1, 64, HCA_OP_SEND), HCA_FAULT_NONE);
	ck_assert_uint_eq(message(1, 65, HCA_OP_WRITE), HCA_FAULT_NONE);
	ck_assert_uint_eq(f.rule[0].seen, 0);
	ck_assert_uint_eq(message(1, 65, HCA_OP_SEND), HCA_FAULT_DROP);
	parse_ok("message rnr\n");
	ck_assert_uint_eq(message(0, 64, HCA_OP_WRITE), HCA_FAULT_NONE);
	ck_assert_uint_eq(message(0, 64, HCA_OP_CMP_SWAP), HCA_FAULT_NONE);
	ck_assert_uint_eq(message(0, 64, HCA_OP_WRITE_IMM), HCA_FAULT_RNR);
	ck_assert_uint_eq(message(0, 64, HCA_OP_SEND), HCA_FAULT_RNR);
}
END_TEST

START_TEST(the_first_rule_that_would_act_does_and_all_count)
{
	parse_ok("message nth=2 drop\nmessage times=2 status=rem_op_err\nmessage delay_us=1\n");
	ck_assert_uint_eq(message(0, 64, HCA_OP_WRITE), HCA_FAULT_STATUS);
	ck_assert_uint_eq(message(0, 64, HCA_OP_WRITE), HCA_FAULT_DROP);
	ck_assert_uint_eq(message(0, 64, HCA_OP_WRITE), HCA_FAULT_STATUS);
	ck_assert_uint_eq(message(0, 64, HCA_OP_WRITE), HCA_FAULT_DELAY);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(f.rule[i].seen, 4);
	ck_assert_uint_eq(f.rule[0].acted, 1);
	ck_assert_uint_eq(f.rule[1].acted, 2);
	ck_assert_uint_eq(f.rule[2].acted, 1);
}
END_TEST

START_TEST(chance_is_as_likely_as_said_and_repeats_by_seed)
{
	enum { N = 100000 };
	uint64_t first = hits("seed 1\nmessage per_million=500000 drop");
	uint32_t share = (uint32_t)t_between(1000, 999000), n = 0;
	char text[64];

	ck_assert_uint_eq(hits("seed 1\nmessage per_million=500000 drop"), first);
	ck_assert_uint_eq(hits("message per_million=500000 drop\nseed 1"), first);
	ck_assert_uint_ne(hits("seed 2\nmessage per_million=500000 drop"), first);
	snprintf(text, sizeof(text), "seed %u\nmessage per_million=%u drop",
		 (uint32_t)t_between(0, 1000000), share);
	parse_ok(text);
	for (int i = 0; i < N; i++)
		n += message(0, 64, HCA_OP_WRITE) == HCA_FAULT_DROP;
	/* Six standard deviations of the binomial distribution are below 0.95 % of N. */
	ck_assert_msg(n + 950u > share / 10 && n < share / 10 + 950u, "%s: %u of %d", text, n, N);
}
END_TEST

START_TEST(without_a_seed_of_their_own_rules_have_the_worlds)
{
	parse_ok("message drop");
	ck_assert_uint_eq(f.seed, c.seed);
}
END_TEST

START_TEST(times_come_in_order_and_once)
{
	const struct hca_fault_rule *r;
	uint64_t next;

	parse_ok("at ms=20 port_up\nat ms=10 port_down\nmessage drop\nat ms=20 kill\n");
	f.begin_ns = 1000 * MS;
	ck_assert_ptr_null(hca_fault_due(&f, 1009 * MS, &next));
	ck_assert_uint_eq(next, 1010 * MS);
	r = hca_fault_due(&f, 1010 * MS, &next);
	ck_assert_ptr_eq(r, &f.rule[1]);
	ck_assert_ptr_null(hca_fault_due(&f, 1010 * MS, &next));
	ck_assert_uint_eq(next, 1020 * MS);
	ck_assert_ptr_eq(hca_fault_due(&f, 2000 * MS, &next), &f.rule[0]);
	ck_assert_ptr_eq(hca_fault_due(&f, 2000 * MS, &next), &f.rule[3]);
	ck_assert_ptr_null(hca_fault_due(&f, 2000 * MS, &next));
	ck_assert_uint_eq(next, HCA_FAULT_NEVER);
}
END_TEST

/* Whatever the text, it is taken or refused with a message that names its line. */
START_TEST(noise_is_refused_or_taken)
{
	static const char *const piece[] = {
		"message", "command", "event", "at", "seed", " ", "\t", "\n", "#", "=", "nth=",
		"drop", "rnr", "1", "0x", "host=a", "ms=5", "fail=EIO", "op=", "send", "delay_us=9",
	};

	for (int run = 0; run < 20000; run++) {
		char text[256] = "";

		for (uint64_t n = t_between(0, 12); n; n--) {
			strcat(text, piece[t_between(0, sizeof(piece) / sizeof(*piece) - 1)]);
			if (t_between(0, 1))
				strcat(text, " ");
		}
		if (parse(text))
			T_CHECK(!strncmp(err, "rules:", 6));
		else
			T_CHECK(f.rules <= 12);
	}
}
END_TEST

T_MAIN("fault", errors_name_the_line_the_value_and_what_is_accepted,
       there_is_a_limit_to_rules_and_lines, a_rule_says_what_was_written, no_rules_hit_nothing,
       occurrences_are_counted, conditions_all_have_to_hold,
       the_first_rule_that_would_act_does_and_all_count,
       chance_is_as_likely_as_said_and_repeats_by_seed,
       without_a_seed_of_their_own_rules_have_the_worlds, times_come_in_order_and_once,
       noise_is_refused_or_taken)
