// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* A world's configuration: settings by name, their text file, and where the world lies. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

enum { DEFAULT_SLOWDOWN = 50, LINE_LEN = 8192 };

#define MODELS "ib56, roce40, ib100, off"

__attribute__((format(printf, 4, 5)))
static int fail(int rc, char *err, size_t err_size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(err, err_size, format, args);
	va_end(args);
	return rc;
}

void hca_config_default(struct hca_config *c)
{
	memset(c, 0, sizeof(*c));
	c->hosts = 2;
	strcpy(c->host[0], "a");
	strcpy(c->host[1], "b");
	c->has_model = 1;
	c->slowdown = DEFAULT_SLOWDOWN;
	c->seed = 1;
	nic_params_preset(&c->nic, "ib56");
}

/* ---- single settings ---- */

static int is_host_name(const char *name, size_t length)
{
	if (!length || length >= HCA_NAME_LEN || !isalnum((unsigned char)*name))
		return 0;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
			return 0;
	return 1;
}

static int add_host(struct hca_config *c, const char *name, size_t length, char *err,
		    size_t err_size)
{
	if (!is_host_name(name, length))
		return fail(-EINVAL, err, err_size,
			    "hosts: '%.*s': a name has 1 to %d of A-Z a-z 0-9 - _ and begins "
			    "with a letter or digit", (int)length, name, HCA_NAME_LEN - 1);
	if (c->hosts == HCA_MAX_HOSTS)
		return fail(-ERANGE, err, err_size, "hosts: '%.*s': at most %d hosts",
			    (int)length, name, HCA_MAX_HOSTS);
	memset(c->host[c->hosts], 0, HCA_NAME_LEN);
	memcpy(c->host[c->hosts], name, length);
	if (hca_host_index(c, c->host[c->hosts]) >= 0)
		return fail(-EEXIST, err, err_size, "hosts: '%.*s' is named twice",
			    (int)length, name);
	c->hosts++;
	return 0;
}

static int set_hosts(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	c->hosts = 0;
	for (;;) {
		size_t length = strcspn(value, ",");
		int rc = add_host(c, value, length, err, err_size);

		if (rc || !value[length])
			return rc;
		value += length + 1;
	}
}

static int set_choice(int *out, const char *key, const char *value, const char *zero,
		      const char *one, char *err, size_t err_size)
{
	if (strcmp(value, zero) && strcmp(value, one))
		return fail(-EINVAL, err, err_size, "%s: '%s': accepted are %s and %s", key,
			    value, zero, one);
	*out = !strcmp(value, one);
	return 0;
}

static int set_device(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	return set_choice(&c->device, "device", value, hca_device[HCA_MLX5].driver,
			  hca_device[HCA_MLX4].driver, err, err_size);
}

static int set_link(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	return set_choice(&c->is_eth, "link", value, "ib", "eth", err, err_size);
}

static int set_driver(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	return set_choice(&c->is_inline, "driver", value, "card", "inline", err, err_size);
}

static int set_clock(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	int rc = set_choice(&c->is_virtual, "clock", value, "real", "virtual", err, err_size);

	if (!rc && c->is_virtual)
		c->slowdown = 1;
	return rc;
}

static int set_hold(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	return set_choice(&c->is_held, "hold", value, "no", "yes", err, err_size);
}

static int set_model(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	int is_off = !strcmp(value, "off");

	if (nic_params_preset(&c->nic, is_off ? "ib56" : value))
		return fail(-EINVAL, err, err_size, "model: '%s': accepted are %s", value,
			    MODELS);
	if (is_off)
		strcpy(c->nic.name, "off");
	c->has_model = !is_off;
	c->is_inline = is_off;
	c->slowdown = is_off || c->is_virtual ? 1 : DEFAULT_SLOWDOWN;
	return 0;
}

static int parse_u64(const char *key, const char *value, uint64_t min, uint64_t max,
		     uint64_t *out, char *err, size_t err_size)
{
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)*value))
		*out = strtoull(value, &end, 10);
	if (!end || *end)
		return fail(-EINVAL, err, err_size, "%s: '%s' is not a whole number from %"
			    PRIu64 " to %" PRIu64, key, value, min, max);
	if (errno || *out < min || *out > max)
		return fail(-ERANGE, err, err_size, "%s: %s is out of range, %" PRIu64
			    " to %" PRIu64, key, value, min, max);
	return 0;
}

static int set_slowdown(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	uint64_t v = 0;
	int rc = parse_u64("slowdown", value, 1, HCA_SLOWDOWN_MAX, &v, err, err_size);

	if (!rc)
		c->slowdown = (uint32_t)v;
	return rc;
}

static int set_seed(struct hca_config *c, const char *value, char *err, size_t err_size)
{
	uint64_t v = 0;
	int rc = parse_u64("seed", value, 0, UINT64_MAX, &v, err, err_size);

	if (!rc)
		c->seed = v;
	return rc;
}

static const struct {
	const char *key;
	int (*set)(struct hca_config *c, const char *value, char *err, size_t err_size);
} setting[] = {
	{ "hosts", set_hosts }, { "device", set_device }, { "link", set_link },
	{ "model", set_model }, { "driver", set_driver }, { "clock", set_clock },
	{ "hold", set_hold },
	{ "slowdown", set_slowdown }, { "seed", set_seed },
};

static int set_param(struct hca_config *c, const char *key, const char *value, char *err,
		     size_t err_size)
{
	uint32_t min = 0, max = 0;
	int rc = nic_params_set(&c->nic, key, value, &min, &max);

	if (rc == -ENOENT)
		return fail(rc, err, err_size, "'%s' is neither a setting nor a parameter of "
			    "the model; softhca(1) lists them", key);
	if (rc == -EINVAL)
		return fail(rc, err, err_size, "%s: '%s' is not a whole number from %u to %u",
			    key, value, min, max);
	if (rc)
		return fail(rc, err, err_size, "%s: %s is out of range, %u to %u", key, value,
			    min, max);
	return 0;
}

int hca_config_set(struct hca_config *c, const char *key, const char *value,
		   char *err, size_t err_size)
{
	for (size_t i = 0; i < sizeof(setting) / sizeof(setting[0]); i++)
		if (!strcmp(setting[i].key, key))
			return setting[i].set(c, value, err, err_size);
	return set_param(c, key, value, err, err_size);
}

int hca_config_check(const struct hca_config *c, char *err, size_t err_size)
{
	const char *reason;

	if (nic_params_check(&c->nic, &reason))
		return fail(-EINVAL, err, err_size, "%s", reason);
	if (c->has_model && c->is_inline)
		return fail(-EINVAL, err, err_size, "driver: inline needs model off; model %s "
			    "needs driver card", c->nic.name);
	if (c->is_virtual && (!c->has_model || c->is_inline))
		return fail(-EINVAL, err, err_size, "clock: virtual needs a model and driver card; "
			    "here are model %s and driver %s", c->nic.name,
			    c->is_inline ? "inline" : "card");
	if (c->is_virtual && c->slowdown != 1)
		return fail(-EINVAL, err, err_size, "slowdown: %u: a virtual clock needs none; "
			    "accepted is 1", c->slowdown);
	if (c->is_held && !c->is_virtual)
		return fail(-EINVAL, err, err_size, "hold: only a virtual clock can be held");
	if (!c->has_model && c->slowdown != 1)
		return fail(-EINVAL, err, err_size, "slowdown: %u: with model off there is "
			    "nothing to slow down; accepted is 1", c->slowdown);
	return 0;
}

/* ---- the file ---- */

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = 0;
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* "key = value", a comment or nothing */
static int load_line(struct hca_config *c, char *line, char *err, size_t err_size)
{
	char *key, *value = strchr(line, '=');

	key = trim(line);
	if (!*key || *key == '#')
		return 0;
	if (!value)
		return fail(-EINVAL, err, err_size, "'%.80s' is not key = value", key);
	*value = 0;
	return hca_config_set(c, trim(key), trim(value + 1), err, err_size);
}

static int load_file(struct hca_config *c, FILE *f, const char *path, char *err,
		     size_t err_size)
{
	char line[LINE_LEN], why[HCA_ERROR_LEN];

	for (unsigned int n = 1; fgets(line, sizeof(line), f); n++) {
		int rc = load_line(c, line, why, sizeof(why));

		if (rc)
			return fail(rc, err, err_size, "%s: line %u: %s", path, n, why);
	}
	if (hca_config_check(c, why, sizeof(why)))
		return fail(-EINVAL, err, err_size, "%s: %s", path, why);
	return 0;
}

int hca_config_load(struct hca_config *c, const char *world, char *err, size_t err_size)
{
	char path[HCA_PATH_LEN];
	FILE *f;
	int rc;

	if (hca_world_path(world, "config", path, sizeof(path)))
		return fail(-ENAMETOOLONG, err, err_size, "%.80s...: path too long", world);
	f = fopen(path, "re");
	if (!f && errno == ENOENT)
		return fail(-ENOENT, err, err_size, "no world in %s: start one with "
			    "'softhca up'", world);
	if (!f) {
		rc = -errno;
		return fail(rc, err, err_size, "%s: %s", path, strerror(-rc));
	}
	hca_config_default(c);
	rc = load_file(c, f, path, err, err_size);
	fclose(f);
	return rc;
}

static void print(const struct hca_config *c, FILE *f)
{
	const char *key;
	uint32_t value;

	fputs("# written by softhca up\n", f);
	/* The model comes first: it resets what depends on it. */
	fprintf(f, "model = %s\nclock = %s\nhold = %s\n", c->nic.name,
		c->is_virtual ? "virtual" : "real", c->is_held ? "yes" : "no");
	fprintf(f, "device = %s\nlink = %s\ndriver = %s\nslowdown = %u\nseed = %"
		PRIu64 "\n", hca_device[c->device].driver, c->is_eth ? "eth" : "ib",
		c->is_inline ? "inline" : "card", c->slowdown, c->seed);
	fputs("hosts = ", f);
	for (uint32_t i = 0; i < c->hosts; i++)
		fprintf(f, "%s%s", i ? "," : "", c->host[i]);
	fputs("\n", f);
	for (size_t i = 0; (key = nic_params_get(&c->nic, i, &value)); i++)
		fprintf(f, "%s = %u\n", key, value);
}

int hca_config_store(const struct hca_config *c, const char *world, char *err, size_t err_size)
{
	char path[HCA_PATH_LEN];
	FILE *f;
	int rc = 0;

	if (hca_world_path(world, "config", path, sizeof(path)))
		return fail(-ENAMETOOLONG, err, err_size, "%.80s...: path too long", world);
	f = fopen(path, "we");
	if (f) {
		print(c, f);
		if (ferror(f))
			rc = -EIO;
	}
	if (!f || fclose(f))
		rc = -errno;
	if (rc)
		return fail(rc, err, err_size, "%s: %s", path, strerror(-rc));
	return 0;
}

/* ---- names ---- */

int hca_world_dir(const char *opt, char *out, size_t out_size)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	int n;

	if (!opt)
		opt = getenv("SOFTHCA_WORLD");
	if (opt && *opt)
		n = snprintf(out, out_size, "%s", opt);
	else
		n = snprintf(out, out_size, "%s/softhca-%u", run && *run ? run : "/tmp",
			     (unsigned int)getuid());
	return n < (int)out_size ? 0 : -ENAMETOOLONG;
}

int hca_world_path(const char *world, const char *name, char *out, size_t out_size)
{
	int n = snprintf(out, out_size, "%s/%s", world, name);

	return n < (int)out_size ? 0 : -ENAMETOOLONG;
}

int hca_host_index(const struct hca_config *c, const char *name)
{
	for (uint32_t i = 0; i < c->hosts; i++)
		if (!strcmp(c->host[i], name))
			return (int)i;
	return -ENOENT;
}

void hca_config_banner(const struct hca_config *c, char *out, size_t out_size)
{
	if (c->is_virtual)
		snprintf(out, out_size, "model %s, virtual time", c->nic.name);
	else
		snprintf(out, out_size, "model %s, slowdown %u", c->nic.name, c->slowdown);
}
