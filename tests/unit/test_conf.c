// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * test_conf.c - quantities with units, and justitia.conf(5): what is accepted,
 * and that what is not is quoted with file, line, value and range.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi.h"
#include "justitiad/conf.h"
#include "justitiad/conf_text.h"
#include "justitiad/rules.h"
#include "justitiad/units.h"
#include "unit.h"

static char path[] = "/tmp/t_confXXXXXX";
static char error[1024];
static struct jstd_conf conf;

static int load_bytes(const void *text, size_t bytes)
{
	char template[] = "/tmp/t_confXXXXXX";
	int ret, fd = mkstemp(template);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, bytes), (ssize_t)bytes);
	close(fd);
	strcpy(path, template);
	ret = jstd_conf_load(&conf, path, error, sizeof(error));
	unlink(path);
	return ret;
}

static int load(const char *text)
{
	return load_bytes(text, strlen(text));
}

/* Loads what must be refused: "@" in @expected stands for the file's path. */
static void refuses(const char *text, const char *expected)
{
	char want[1024];

	memset(&conf, 0x5a, sizeof(conf));
	ck_assert_int_eq(load(text), -EINVAL);
	snprintf(want, sizeof(want), "%s%s", *expected == '@' ? path : "",
		 expected + (*expected == '@'));
	if (!strstr(error, want))
		ck_abort_msg("\"%s\" does not hold \"%s\"", error, want);
	for (size_t i = 0; i < sizeof(conf); i++)
		T_CHECK(((unsigned char *)&conf)[i] == 0x5a); /* untouched */
}

/* ---- units ------------------------------------------------------------------------- */

static uint64_t value(const char *text, const struct jstd_unit *units)
{
	uint64_t out = 0;

	ck_assert_int_eq(jstd_quantity_parse(text, units, &out), 0);
	return out;
}

START_TEST(prefixes_are_powers_of_1000_and_of_1024)
{
	ck_assert_uint_eq(value("48 Gbit/s", jstd_units_rate), 6000000000);
	ck_assert_uint_eq(value("48Gbit/s", jstd_units_rate), 6000000000);
	ck_assert_uint_eq(value("8 bit/s", jstd_units_rate), 1);
	ck_assert_uint_eq(value("5.43 GB/s", jstd_units_rate), 5430000000);
	ck_assert_uint_eq(value("1 GiB/s", jstd_units_rate), 1073741824);
	ck_assert_uint_eq(value("0.4 Tbit/s", jstd_units_rate), 50000000000);
	ck_assert_uint_eq(value("10.8 Mop/s", jstd_units_ops), 10800000);
	ck_assert_uint_eq(value("1 MB", jstd_units_size), 1000000);
	ck_assert_uint_eq(value("1 MiB", jstd_units_size), 1048576);
	ck_assert_uint_eq(value("5 KB", jstd_units_size), 5000);
	ck_assert_uint_eq(value("5 kB", jstd_units_size), 5000);
	ck_assert_uint_eq(value("4\tKiB", jstd_units_size), 4096);
	ck_assert_uint_eq(value("100 us", jstd_units_time), 100000);
	ck_assert_uint_eq(value("0.000000001 s", jstd_units_time), 1);
	ck_assert_uint_eq(value("1.9999 ns", jstd_units_time), 1);
	ck_assert_uint_eq(value("256", jstd_units_count), 256);
}
END_TEST

START_TEST(quantities_that_are_none)
{
	static const struct {
		const char *text;
		int error;
	} cases[] = {
		{"", -EINVAL},		 {" 1 MB", -EINVAL},  {"-1 MB", -EINVAL},
		{".5 MB", -EINVAL},	 {"1. MB", -EINVAL},  {"MB", -EINVAL},
		{"0x10 MB", -ENOENT},	 {"1e3 MB", -ENOENT}, {"1 mb", -ENOENT},
		{"1 Mb", -ENOENT},	 {"1 MB/s", -ENOENT}, {"1", -ENOENT},
		{"1 MB ", -ENOENT},	 {"1,5 MB", -ENOENT}, {"1.2.3 MB", -ENOENT},
		{"99999999999999999999 B", -ERANGE},	      {"18446744073709551615 MB", -ERANGE},
		{"1.0000000000 MB", -EINVAL}, /* more decimals than can matter */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t out = 4711;
		int ret = jstd_quantity_parse(cases[i].text, jstd_units_size, &out);

		if (ret != cases[i].error || out != 4711)
			ck_abort_msg("\"%s\": %d, %d expected", cases[i].text, ret, cases[i].error);
	}
}
END_TEST

START_TEST(whole_numbers_come_back_exactly)
{
	for (int i = 0; i < 20000; i++) {
		uint64_t n = t_magnitude(UINT64_MAX / 1000000 - 1);
		char text[64];

		snprintf(text, sizeof(text), "%llu MB", (unsigned long long)n);
		T_CHECK(value(text, jstd_units_size) == n * 1000000);
		snprintf(text, sizeof(text), "%llu.%03u KB", (unsigned long long)n, (unsigned)(n % 1000));
		T_CHECK(value(text, jstd_units_size) == n * 1000 + n % 1000);
	}
}
END_TEST

/* ---- what is accepted ---------------------------------------------------------------- */

START_TEST(the_defaults)
{
	ck_assert_int_eq(jstd_conf_load(&conf, NULL, error, sizeof(error)), 0);
	ck_assert_str_eq(conf.socket_path, JST_SOCKET_DEFAULT);
	ck_assert_uint_eq(conf.card.max_bytes_per_s, 6000000000);
	ck_assert_uint_eq(conf.card.max_bytes_small_per_s, 5375000000);
	ck_assert_uint_eq(conf.card.max_ops_per_s, 10800000);
	ck_assert_uint_eq(conf.card.token_bytes_large, 1000000);
	ck_assert_uint_eq(conf.card.token_bytes_small, 5000);
	ck_assert(conf.card.count_latency_once);
	ck_assert_uint_eq(conf.tick_ns, 100000);
	ck_assert_uint_eq(conf.horizon_ns, 400000);
	ck_assert_uint_eq(conf.max_clients, 256);
	ck_assert(!conf.has_admin_group);
	ck_assert(conf.realtime);
	ck_assert_uint_eq(conf.n_rules, 0);
	jstd_conf_free(&conf);
	ck_assert_int_eq(load(""), 0);
	jstd_conf_free(&conf);
	ck_assert_int_eq(load("# nothing but words\n"), 0);
	jstd_conf_free(&conf);
}
END_TEST

START_TEST(every_key)
{
	ck_assert_int_eq(load("socket = \"/run/x\"\n"
			      "max_rate = \"100 MB/s\"  # words\n"
			      "max_rate_small = \"700 Mbit/s\"\n"
			      "max_ops = \"20 kop/s\"\n"
			      "token_size = \"64 KiB\"\n"
			      "token_size_latency = \"4 KiB\"\n"
			      "count_latency = \"each\"\n"
			      "tick = \"1 ms\"\n"
			      "horizon = \"5 ms\"\n"
			      "scheduling = \"normal\"\n"
			      "max_clients = 1000\n"
			      "admin_group = \"0\"\n"
			      "rule \"one\" {\n user = \"root\"\n class = \"latency\"\n}\n"
			      "rule \"two\" { executable = \"/usr/bin/*\" weight = \"1.5\" }\n"
			      "rule \"three\" { user = \"65534\" class = \"deny\" }\n"),
			 0);
	ck_assert_str_eq(conf.socket_path, "/run/x");
	ck_assert_uint_eq(conf.card.max_bytes_per_s, 100000000);
	ck_assert_uint_eq(conf.card.max_bytes_small_per_s, 87500000);
	ck_assert_uint_eq(conf.card.max_ops_per_s, 20000);
	ck_assert_uint_eq(conf.card.token_bytes_large, 65536);
	ck_assert_uint_eq(conf.card.token_bytes_small, 4096);
	ck_assert(!conf.card.count_latency_once);
	ck_assert_uint_eq(conf.tick_ns, 1000000);
	ck_assert_uint_eq(conf.horizon_ns, 5000000);
	ck_assert_uint_eq(conf.max_clients, 1000);
	ck_assert(!conf.realtime);
	ck_assert(conf.has_admin_group && conf.admin_gid == 0);
	ck_assert_uint_eq(conf.n_rules, 3);
	ck_assert(conf.rules[0].has_user && conf.rules[0].uid == 0 && conf.rules[0].has_class &&
		  conf.rules[0].class == JST_CLASS_LATENCY && !conf.rules[0].has_weight);
	ck_assert(!conf.rules[1].has_user && conf.rules[1].has_weight &&
		  conf.rules[1].weight_milli == 1500 && !conf.rules[1].has_class);
	ck_assert(conf.rules[2].deny && conf.rules[2].uid == 65534);
	jstd_conf_free(&conf);
}
END_TEST

/* ---- what is not ----------------------------------------------------------------------- */

START_TEST(values_are_quoted_with_file_line_and_range)
{
	refuses("\n\nmax_rate = \"48 Gbps\"\n",
		"@:3: max_rate = \"48 Gbps\" is not a number with a unit; accepted: 10 Mbit/s to 2 Tbit/s");
	refuses("max_rate = 48\n", "@:1: max_rate = \"48\" is not a number with a unit");
	refuses("max_rate = \"1 Mbit/s\"\n",
		"@:1: max_rate = \"1 Mbit/s\" is out of range; accepted: 10 Mbit/s to 2 Tbit/s");
	refuses("max_rate = \"99999999999999999999999 Gbit/s\"\n", "is out of range");
	refuses("max_ops = \"fast\"\n", "in op/s, kop/s, Mop/s, Gop/s");
	refuses("tick = \"1 s\"\n", "@:1: tick = \"1 s\" is out of range; accepted: 50 us to 100 ms");
	refuses("max_clients = \"1025\"\n", "accepted: 1 to 1024");
	refuses("max_clients = \"many\"\n", "is not a whole number; accepted: 1 to 1024");
	refuses("count_latency = \"twice\"\n", "@:1: count_latency = \"twice\"; accepted: once, each");
	refuses("scheduling = \"fast\"\n", "scheduling = \"fast\"; accepted: realtime, normal");
	refuses("socket = \"here\"\n", "socket = \"here\"; accepted: an absolute path");
	refuses("admin_group = \"no such group\"\n", "admin_group = \"no such group\" is not known here");
	refuses("rule \"a\" {\n\n class = \"fast\"\n}\n",
		"@:3: class = \"fast\"; accepted: latency, throughput, bandwidth, deny");
	refuses("rule \"a\" {\n weight = \"0\"\n}\n", "@:2: weight = \"0\"; accepted: 0.1 to 100");
	refuses("rule \"a\" {\n weight = \"101\"\n}\n", "weight = \"101\"");
	refuses("rule \"a\" {\n user = \"no such user\"\n class = \"latency\"\n}\n",
		"@:2: user = \"no such user\" is not known here");
	refuses("rule \"a\" {\n executable = \"bin\"\n class = \"latency\"\n}\n",
		"@:2: executable = \"bin\"; accepted: a glob that starts with / or *");
	refuses("rule \"a\" {\n user = \"root\"\n}\n", "rule \"a\" decides nothing");
}
END_TEST

START_TEST(lines_are_counted_past_comments_of_all_kinds)
{
	refuses("# one\n# two\ntick = \"0 us\"\n", "@:3: ");
	refuses("// one\n/* two\n three */\ntick = \"0 us\"\n", "@:4: ");
	refuses("tick = \"100 us\" # not \"this\n\n\ntick = \"0 us\"\n", "@:4: ");
	refuses("scheduling = \"fast\"\n", "scheduling = \"fast\"; accepted: realtime, normal");
	refuses("socket = \"/a#b\" // c\ntick = \"0 us\"\n", "@:2: ");
}
END_TEST

START_TEST(comments_in_quotes_are_none)
{
	ck_assert_int_eq(load("socket = \"/run/#1//2/*3\"\nrule 'a # b' { class = \"deny\" }\n"), 0);
	ck_assert_str_eq(conf.socket_path, "/run/#1//2/*3");
	ck_assert_str_eq(conf.rules[0].name, "a # b");
	jstd_conf_free(&conf);
}
END_TEST

START_TEST(what_libconfuse_refuses_has_file_and_line_too)
{
	refuses("tick = \"100 us\"\nno_such_key = \"1\"\n", "@:2: no such option 'no_such_key'");
	refuses("rule \"a\" {\n colour = \"red\"\n}\n", "@:2: no such option 'colour'");
	refuses("rule \"a\" { class = \"deny\" }\nrule \"a\" { class = \"deny\" }\n", "@:2: ");
	refuses("tick = \"100 us\n", "@:");
	refuses("rule {", "@:1: ");
	refuses("}\n", "@:1: ");
	refuses("=\n", "@:1: ");
}
END_TEST

START_TEST(values_that_do_not_go_together)
{
	refuses("max_rate_small = \"10 GB/s\"\n",
		"@:1: max_rate_small = \"10 GB/s\" does not go with max_rate = \"48 Gbit/s\"");
	refuses("max_rate = \"1 Gbit/s\"\n",
		"@:1: max_rate = \"1 Gbit/s\" does not go with max_rate_small = \"43 Gbit/s\"");
	refuses("token_size = \"4 KB\"\n", "token_size_latency must be at most token_size");
	refuses("tick = \"1 ms\"\n\nhorizon = \"1.5 ms\"\n",
		"@:3: horizon = \"1.5 ms\" does not go with tick = \"1 ms\"");
	refuses("max_rate = \"2 Tbit/s\"\nmax_rate_small = \"2 Tbit/s\"\n"
		"token_size_latency = \"512 B\"\n", "a token must last for 50 ns or more");
	refuses("horizon = \"1 s\"\n", "horizon must not hold more than 1024 tokens");
	refuses("max_rate = \"10 Mbit/s\"\nmax_rate_small = \"10 Mbit/s\"\nmax_ops = \"1 Gop/s\"\n"
		"token_size = \"64 MB\"\n", "must not hold more than 1000000000 operations");
}
END_TEST

/* Any configuration that is accepted keeps the policy's arithmetic sound. */
START_TEST(whatever_is_accepted_gives_a_sound_rate)
{
	int accepted = 0;

	for (int i = 0; i < 3000; i++) {
		struct jst_population pop = {0};
		struct jst_rate rate;
		char text[512];
		uint64_t rate_max = t_magnitude(250000000000);
		uint64_t size_max = t_magnitude(64000000);

		snprintf(text, sizeof(text),
			 "max_rate=\"%llu B/s\"\nmax_rate_small=\"%llu B/s\"\nmax_ops=\"%llu op/s\"\n"
			 "token_size=\"%llu B\"\ntoken_size_latency=\"%llu B\"\n",
			 (unsigned long long)rate_max,
			 (unsigned long long)t_between(rate_max / 2, rate_max),
			 (unsigned long long)t_magnitude(1000000000), (unsigned long long)size_max,
			 (unsigned long long)t_between(size_max / 2, size_max));
		if (load(text))
			continue;
		accepted++;
		/* the most unequal weights there can be */
		pop.apps[JST_CLASS_LATENCY] = t_rand() % 2 ? 1023 : 0;
		pop.weight_milli[JST_CLASS_LATENCY] = pop.apps[JST_CLASS_LATENCY] * 100000ull;
		pop.apps[JST_CLASS_BANDWIDTH] = 1;
		pop.weight_milli[JST_CLASS_BANDWIDTH] = JST_WEIGHT_MILLI_MIN;
		conf.card.count_latency_once = false;
		jst_capacity(&conf.card, &pop, &rate);
		T_CHECK(rate.safeutil_bytes_per_s >= 1);
		T_CHECK(rate.token_interval_ns >= 50);
		T_CHECK(rate.token_ops >= 1);
		T_CHECK(rate.token_interval_ns < 1000000000000000000ull);
		jstd_conf_free(&conf);
	}
	ck_assert_int_gt(accepted, 50);
}
END_TEST

START_TEST(noise_is_refused_and_nothing_else_happens)
{
	for (int i = 0; i < 3000; i++) {
		static const char seeds[] = "rule \"a\" { user = \"root\" class = 'deny' }\n"
					    "tick = \"100 us\" # x\n/* */ max_clients = 3\n";
		char noise[256];
		size_t n = t_between(0, sizeof(noise));

		for (size_t j = 0; j < n; j++)
			noise[j] = t_rand() % 8 ? seeds[(j + (size_t)i) % (sizeof(seeds) - 1)] :
						  (char)t_rand();
		if (!load_bytes(noise, n))
			jstd_conf_free(&conf);
		else
			T_CHECK(error[0]);
	}
}
END_TEST

START_TEST(files_that_are_none)
{
	ck_assert_int_eq(jstd_conf_load(&conf, "/nonexistent/file", error, sizeof(error)), -ENOENT);
	ck_assert_str_eq(error, "/nonexistent/file: No such file or directory");
	ck_assert_int_lt(jstd_conf_load(&conf, "/tmp", error, sizeof(error)), 0);
	ck_assert_ptr_nonnull(strstr(error, "/tmp: accepted: a regular file"));
	ck_assert_int_lt(jstd_conf_load(&conf, "/dev/zero", error, sizeof(error)), 0);
}
END_TEST

/* ---- rules ------------------------------------------------------------------------------ */

static struct jstd_verdict judge(uid_t uid, const char *executable, const char *class,
				 const char *weight)
{
	struct jstd_peer peer = {.uid = uid};
	struct jst_msg_hello hello = {0};
	struct jstd_verdict verdict;

	strcpy(peer.executable, executable);
	memcpy(hello.class, class, strlen(class));
	memcpy(hello.weight, weight, strlen(weight));
	jstd_rules_judge(&conf, &peer, &hello, &verdict);
	return verdict;
}

START_TEST(rule_beats_wish_beats_default_and_the_first_rule_counts)
{
	struct jstd_verdict v;

	ck_assert_int_eq(load("rule \"db\" { user = \"7\" executable = \"/opt/db/*\" class = \"latency\" }\n"
			      "rule \"seven\" { user = \"7\" weight = \"3\" }\n"
			      "rule \"bad\" { executable = \"*/bad\" class = \"deny\" }\n"), 0);
	v = judge(7, "/opt/db/bin/db", "bandwidth", "2");
	ck_assert(v.class == JST_CLASS_LATENCY && v.weight_milli == 2000 && v.rule == &conf.rules[0]);
	v = judge(7, "/opt/dbx", "throughput", "2");
	ck_assert(v.class == JST_CLASS_THROUGHPUT && v.weight_milli == 3000 && !v.denied);
	v = judge(8, "/opt/db/bin/db", "", "");
	ck_assert(v.class == JST_CLASS_BANDWIDTH && v.weight_milli == 1000 && !v.rule);
	ck_assert(!v.bad_class && !v.bad_weight);
	ck_assert(judge(8, "/x/bad", "", "").denied);
	ck_assert(!judge(7, "/x/bad", "", "").denied); /* the rule before it decides */
	ck_assert(!judge(8, "", "", "").denied);
	v = judge(8, "/x", "lat", "1.5x");
	ck_assert(v.bad_class && v.bad_weight && v.class == JST_CLASS_BANDWIDTH &&
		  v.weight_milli == 1000);
	v = judge(8, "/x", "0123456789012345678901234567890x", "00000000000000000000000000000001");
	ck_assert(v.bad_class && !v.bad_weight && v.weight_milli == 1000); /* not terminated */
	jstd_conf_free(&conf);
}
END_TEST

T_MAIN("conf", prefixes_are_powers_of_1000_and_of_1024, quantities_that_are_none,
       whole_numbers_come_back_exactly, the_defaults, every_key,
       values_are_quoted_with_file_line_and_range, lines_are_counted_past_comments_of_all_kinds,
       comments_in_quotes_are_none, what_libconfuse_refuses_has_file_and_line_too,
       values_that_do_not_go_together, whatever_is_accepted_gives_a_sound_rate,
       noise_is_refused_and_nothing_else_happens, files_that_are_none,
       rule_beats_wish_beats_default_and_the_first_rule_counts)
