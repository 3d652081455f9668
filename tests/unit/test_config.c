// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* test_config.c - settings of an emulated world: what is accepted, and that files keep it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../softhca/config.h"
#include "unit.h"

static struct hca_config c, again;
static char err[HCA_ERROR_LEN];
static char world[] = "/tmp/test-config-XXXXXX";

static int set(const char *key, const char *value)
{
	err[0] = 0;
	return hca_config_set(&c, key, value, err, sizeof(err));
}

static void expect_refused(const char *key, const char *value, const char *words)
{
	struct hca_config before = c;

	ck_assert_int_lt(set(key, value), 0);
	ck_assert_msg(strstr(err, words), "%s = %s: '%s' says nothing of '%s'", key, value, err,
		      words);
	/* hosts is the one that is replaced piece by piece */
	if (strcmp(key, "hosts"))
		ck_assert_mem_eq(&before, &c, sizeof(c));
}

START_TEST(errors_quote_the_value_and_the_range)
{
	hca_config_default(&c);
	expect_refused("slowdown", "0", "0 is out of range, 1 to 1000000");
	expect_refused("slowdown", "1000001", "1000001 is out of range, 1 to 1000000");
	expect_refused("slowdown", "fast", "'fast' is not a whole number from 1 to 1000000");
	expect_refused("slowdown", "", "'' is not a whole number");
	expect_refused("slowdown", "5.5", "'5.5' is not a whole number");
	expect_refused("slowdown", "+5", "'+5' is not a whole number");
	expect_refused("model", "ib57", "'ib57': accepted are ib56, roce40, ib100, off");
	expect_refused("device", "mlx3", "'mlx3': accepted are mlx5 and mlx4");
	expect_refused("link", "iwarp", "'iwarp': accepted are ib and eth");
	expect_refused("driver", "", "'': accepted are card and inline");
	expect_refused("units", "9", "9 is out of range, 1 to 4");
	expect_refused("units", "two", "'two' is not a whole number from 1 to 4");
	expect_refused("unit", "2", "'unit' is neither a setting nor a parameter");
	expect_refused("seed", "18446744073709551616", "out of range");
}
END_TEST

START_TEST(host_names_are_checked)
{
	char many[HCA_MAX_HOSTS * 8] = "", name[16];

	hca_config_default(&c);
	expect_refused("hosts", "", "''");
	expect_refused("hosts", "a,,b", "''");
	expect_refused("hosts", "a,b,", "''");
	expect_refused("hosts", "../x", "'../x'");
	expect_refused("hosts", "a,b,a", "'a' is named twice");
	expect_refused("hosts", "-a", "'-a'");
	expect_refused("hosts", "a b", "'a b'");
	expect_refused("hosts", "x234567890123456789012345678901z", "1 to 31");
	ck_assert_int_eq(set("hosts", "x23456789012345678901234567890z,y"), 0);
	ck_assert_uint_eq(c.hosts, 2);
	for (int i = 0; i < HCA_MAX_HOSTS; i++) {
		snprintf(name, sizeof(name), "%sh%d", i ? "," : "", i);
		strcat(many, name);
	}
	ck_assert_int_eq(set("hosts", many), 0);
	ck_assert_uint_eq(c.hosts, HCA_MAX_HOSTS);
	ck_assert_int_eq(hca_host_index(&c, "h63"), 63);
	ck_assert_int_eq(hca_host_index(&c, "h64"), -ENOENT);
	strcat(many, ",one-more");
	expect_refused("hosts", many, "at most 64");
}
END_TEST

START_TEST(a_model_brings_its_parameters)
{
	hca_config_default(&c);
	ck_assert_int_eq(set("units", "1"), 0);
	ck_assert_int_eq(set("model", "roce40"), 0);
	ck_assert_uint_eq(c.nic.units, 2);
	ck_assert_uint_eq(c.nic.link_gbps, 40);
	ck_assert_int_eq(set("model", "off"), 0);
	ck_assert(!c.has_model && c.is_inline && c.slowdown == 1);
	ck_assert_str_eq(c.nic.name, "off");
	ck_assert_int_eq(hca_config_check(&c, err, sizeof(err)), 0);
	ck_assert_int_eq(set("slowdown", "50"), 0);
	ck_assert_int_eq(hca_config_check(&c, err, sizeof(err)), -EINVAL);
	ck_assert_int_eq(set("model", "ib56"), 0);
	ck_assert(c.has_model && !c.is_inline && c.slowdown == 50);
	ck_assert_int_eq(set("driver", "inline"), 0);
	ck_assert_int_eq(hca_config_check(&c, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "inline needs model off"));
}
END_TEST

static void make_world(void)
{
	strcpy(world + sizeof(world) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(world));
}

static void write_config(const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/config", world);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void remove_world(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/config", world);
	unlink(path);
	rmdir(world);
}

START_TEST(a_stored_world_loads_the_same)
{
	static const char *const model[] = { "ib56", "roce40", "ib100", "off" };
	uint32_t value;

	make_world();
	for (int m = 0; m < 4; m++) {
		hca_config_default(&c);
		ck_assert_int_eq(set("model", model[m]), 0);
		ck_assert_int_eq(set("hosts", "left,right,x-1"), 0);
		ck_assert_int_eq(set("link", m & 1 ? "eth" : "ib"), 0);
		ck_assert_int_eq(set("device", m & 2 ? "mlx4" : "mlx5"), 0);
		ck_assert_int_eq(set("seed", "18446744073709551615"), 0);
		if (c.has_model)
			ck_assert_int_eq(set("slowdown", "123"), 0);
		/* every parameter differs from the preset's if it can */
		for (size_t i = 0; nic_params_get(&c.nic, i, &value); i++) {
			char text[16];

			snprintf(text, sizeof(text), "%u", value + 1);
			set(nic_params_get(&c.nic, i, &value), text);
		}
		ck_assert_int_eq(hca_config_check(&c, err, sizeof(err)), 0);
		ck_assert_int_eq(hca_config_store(&c, world, err, sizeof(err)), 0);
		memset(&again, 0x5a, sizeof(again));
		ck_assert_int_eq(hca_config_load(&again, world, err, sizeof(err)), 0);
		ck_assert_mem_eq(&c, &again, sizeof(c));
	}
	remove_world();
}
END_TEST

START_TEST(a_bad_file_is_refused_by_line)
{
	make_world();
	ck_assert_int_eq(hca_config_load(&c, world, err, sizeof(err)), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err, "no world in"));
	write_config("# comment\n\n  slowdown =  7  \nunits=nine\n");
	ck_assert_int_eq(hca_config_load(&c, world, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "line 4: units: 'nine'"));
	write_config("slowdown 7\n");
	ck_assert_int_eq(hca_config_load(&c, world, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "line 1: 'slowdown 7' is not key = value"));
	write_config("xon_bytes = 65536\n");
	ck_assert_int_eq(hca_config_load(&c, world, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "xon_bytes must be below xoff_bytes"));
	write_config("slowdown = 7");
	ck_assert_int_eq(hca_config_load(&c, world, err, sizeof(err)), 0);
	ck_assert_uint_eq(c.slowdown, 7);
	remove_world();
}
END_TEST

START_TEST(the_world_lies_where_one_says)
{
	char path[HCA_PATH_LEN], expected[64], small[8];

	ck_assert_int_eq(setenv("SOFTHCA_WORLD", "/env", 1), 0);
	ck_assert_int_eq(hca_world_dir("/opt", path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/opt");
	ck_assert_int_eq(hca_world_dir(NULL, path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/env");
	unsetenv("SOFTHCA_WORLD");
	setenv("XDG_RUNTIME_DIR", "/run/user/9", 1);
	snprintf(expected, sizeof(expected), "/run/user/9/softhca-%u", (unsigned int)getuid());
	ck_assert_int_eq(hca_world_dir(NULL, path, sizeof(path)), 0);
	ck_assert_str_eq(path, expected);
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(expected, sizeof(expected), "/tmp/softhca-%u", (unsigned int)getuid());
	ck_assert_int_eq(hca_world_dir(NULL, path, sizeof(path)), 0);
	ck_assert_str_eq(path, expected);
	ck_assert_int_eq(hca_world_dir(NULL, small, sizeof(small)), -ENAMETOOLONG);
	ck_assert_int_eq(hca_world_path("/world", "x", small, sizeof(small)), -ENAMETOOLONG);
}
END_TEST

T_MAIN("config", errors_quote_the_value_and_the_range, host_names_are_checked,
       a_model_brings_its_parameters, a_stored_world_loads_the_same,
       a_bad_file_is_refused_by_line, the_world_lies_where_one_says)
