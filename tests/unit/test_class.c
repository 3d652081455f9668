// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_class.c - names of classes, and weights as text. */
#include <errno.h>
#include <string.h>

#include "core/core.h"
#include "unit.h"

START_TEST(every_name_parses_to_its_own_class)
{
	for (uint32_t want = 0; want < JST_CLASSES; want++) {
		enum jst_class class = JST_CLASSES;

		ck_assert_int_eq(jst_class_parse(jst_class_name(want), &class), 0);
		ck_assert_uint_eq(class, want);
	}
	ck_assert_str_eq(jst_class_name(JST_CLASS_BANDWIDTH), "bandwidth");
	ck_assert_str_eq(jst_class_name(JST_CLASS_THROUGHPUT), "throughput");
	ck_assert_str_eq(jst_class_name(JST_CLASS_LATENCY), "latency");
}
END_TEST

START_TEST(a_number_that_is_no_class_has_a_name_too)
{
	ck_assert_str_eq(jst_class_name(JST_CLASSES), "?");
	ck_assert_str_eq(jst_class_name(UINT32_MAX), "?");
}
END_TEST

START_TEST(other_texts_are_no_class_and_change_nothing)
{
	static const char *const bad[] = {"",	       "off",	     "Latency", "latency ",
					  " latency",  "latencyx",   "laten",	"bandwidth\n",
					  "throughpu", "bandwidth,", "0",	"?"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		enum jst_class class = JST_CLASS_THROUGHPUT;

		ck_assert_msg(jst_class_parse(bad[i], &class) == -EINVAL, "'%s'", bad[i]);
		ck_assert_uint_eq(class, JST_CLASS_THROUGHPUT);
	}
}
END_TEST

START_TEST(weights_read_as_people_write_them)
{
	static const struct {
		const char *text;
		uint32_t milli;
	} good[] = {
		{"1", 1000},	 {"0.25", 250},	 {"1.5", 1500},	 {"2", 2000},
		{"0.1", 100},	 {"100", 100000}, {"100.0", 100000}, {"0.125", 125},
		{"12.345", 12345}, {"007", 7000}, {"99.999", 99999},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint32_t milli = 0;

		ck_assert_msg(jst_weight_parse(good[i].text, &milli) == 0, "'%s'", good[i].text);
		ck_assert_uint_eq(milli, good[i].milli);
	}
}
END_TEST

START_TEST(bad_weights_are_refused_and_change_nothing)
{
	static const struct {
		const char *text;
		int error;
	} bad[] = {
		{"", -EINVAL},	      {"x", -EINVAL},	    {"-1", -EINVAL},   {"+1", -EINVAL},
		{" 1", -EINVAL},      {"1 ", -EINVAL},	    {"1,5", -EINVAL},  {".5", -EINVAL},
		{"1.2345", -EINVAL},  {"1.5.5", -EINVAL},   {"1e3", -EINVAL},  {"0x10", -EINVAL},
		{"nan", -EINVAL},     {"0", -ERANGE},	    {"0.0", -ERANGE},  {"0.099", -ERANGE},
		{"100.001", -ERANGE}, {"101", -ERANGE},	    {"4294967296", -ERANGE},
		{"18446744073709551617", -ERANGE},	    {"99999999999999999999999999", -ERANGE},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint32_t milli = 77;

		ck_assert_msg(jst_weight_parse(bad[i].text, &milli) == bad[i].error, "'%s'",
			      bad[i].text);
		ck_assert_uint_eq(milli, 77);
	}
}
END_TEST

START_TEST(every_weight_survives_text_and_back)
{
	for (uint32_t want = JST_WEIGHT_MILLI_MIN; want <= JST_WEIGHT_MILLI_MAX; want++) {
		uint32_t milli = 0;
		char text[32];

		snprintf(text, sizeof(text), "%u.%03u", want / 1000, want % 1000);
		T_CHECK(!jst_weight_parse(text, &milli) && milli == want);
	}
}
END_TEST

/* Whatever bytes come, the answer is one of three and the result in range. */
START_TEST(random_text_never_gives_a_weight_out_of_range)
{
	static const char alphabet[] = "0123456789..-+e \n";

	for (int round = 0; round < 200000; round++) {
		size_t length = t_between(0, 10);
		uint32_t milli = 0;
		char text[16];
		int error;

		for (size_t i = 0; i < length; i++)
			text[i] = alphabet[t_rand() % (sizeof(alphabet) - 1)];
		text[length] = '\0';
		error = jst_weight_parse(text, &milli);
		if (error) {
			T_CHECK((error == -EINVAL || error == -ERANGE) && !milli);
			continue;
		}
		T_CHECK(milli >= JST_WEIGHT_MILLI_MIN && milli <= JST_WEIGHT_MILLI_MAX);
		T_CHECK((uint32_t)(strtod(text, NULL) * 1000 + 0.5) == milli);
	}
}
END_TEST

T_MAIN("class", every_name_parses_to_its_own_class, a_number_that_is_no_class_has_a_name_too,
       other_texts_are_no_class_and_change_nothing, weights_read_as_people_write_them,
       bad_weights_are_refused_and_change_nothing, every_weight_survives_text_and_back,
       random_text_never_gives_a_weight_out_of_range)
