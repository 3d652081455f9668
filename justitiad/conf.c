// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * conf.c - justitia.conf(5): libconfuse knows the grammar, a table the values.
 *
 * libconfuse hands its callbacks no pointer of ours, so what they need during
 * one jstd_conf_load() is in `reading`. The daemon has one thread.
 */
#include "conf.h"

#include <assert.h>
#include <confuse.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "abi.h"
#include "conf_text.h"
#include "units.h"

#define TOKEN_OPS_MAX 1000000000ull
#define TOKEN_INTERVAL_NS_MIN 50ull

enum key_id {
	KEY_MAX_RATE,
	KEY_MAX_RATE_SMALL,
	KEY_MAX_OPS,
	KEY_TOKEN_SIZE,
	KEY_TOKEN_SIZE_LATENCY,
	KEY_TICK,
	KEY_HORIZON,
	KEY_MAX_CLIENTS,
	KEYS
};

/* The limits are text too, so that the message and the check cannot differ. */
struct key {
	const char *name;
	const struct jstd_unit *units;
	const char *preset;
	const char *min;
	const char *max;
};

/*
 * The least rate keeps Rmin above zero for the most unequal weights that the
 * protocol can express (1024 apps of weight 100 beside one of 0.1).
 */
static const struct key keys[KEYS] = {
	[KEY_MAX_RATE] = { "max_rate", jstd_units_rate, "48 Gbit/s", "10 Mbit/s", "2 Tbit/s" },
	[KEY_MAX_RATE_SMALL] = { "max_rate_small", jstd_units_rate, "43 Gbit/s", "10 Mbit/s",
				 "2 Tbit/s" },
	[KEY_MAX_OPS] = { "max_ops", jstd_units_ops, "10.8 Mop/s", "1 kop/s", "1 Gop/s" },
	[KEY_TOKEN_SIZE] = { "token_size", jstd_units_size, "1 MB", "512 B", "64 MB" },
	[KEY_TOKEN_SIZE_LATENCY] = { "token_size_latency", jstd_units_size, "5 KB", "512 B",
				     "64 MB" },
	[KEY_TICK] = { "tick", jstd_units_time, "100 us", "50 us", "100 ms" },
	[KEY_HORIZON] = { "horizon", jstd_units_time, "400 us", "100 us", "1 s" },
	[KEY_MAX_CLIENTS] = { "max_clients", jstd_units_count, "256", "1", "1024" },
};

static struct {
	char *error;
	size_t error_bytes;
	bool failed;
	int line[KEYS]; /* where the value stands; 0: a default */
	const char *path;
} reading;

/* ---- errors: the first one counts ---------------------------------------- */

static void fail_va(const char *path, int line, const char *format, va_list args)
{
	size_t at = 0;

	if (reading.failed)
		return;
	reading.failed = true;
	if (path && line)
		at = (size_t)snprintf(reading.error, reading.error_bytes, "%s:%d: ", path, line);
	else if (path)
		at = (size_t)snprintf(reading.error, reading.error_bytes, "%s: ", path);
	if (at < reading.error_bytes)
		vsnprintf(reading.error + at, reading.error_bytes - at, format, args);
}

static int __attribute__((format(printf, 2, 3))) fail_at(int line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail_va(reading.path, line, format, args);
	va_end(args);
	return -EINVAL;
}

static void on_error(cfg_t *cfg, const char *format, va_list args)
{
	fail_va(reading.path, cfg->line, format, args);
}

/* ---- values --------------------------------------------------------------- */

static uint64_t preset_value(const struct key *key, const char *text)
{
	uint64_t value = 0;
	int ret = jstd_quantity_parse(text, key->units, &value);

	assert(!ret);
	(void)ret;
	return value;
}

static void units_list(const struct jstd_unit *units, char *out, size_t bytes)
{
	size_t at = 0;

	out[0] = '\0';
	for (const struct jstd_unit *unit = units; unit->name && at < bytes; unit++)
		at += (size_t)snprintf(out + at, bytes - at, "%s%s", unit == units ? "" : ", ",
				       unit->name);
}

static int key_check(const struct key *key, const char *text, int line)
{
	uint64_t value = 0;
	char units[128];
	int ret = jstd_quantity_parse(text, key->units, &value);

	if (!ret && value >= preset_value(key, key->min) && value <= preset_value(key, key->max))
		return 0;
	if (!ret || ret == -ERANGE)
		return fail_at(line, "%s = \"%s\" is out of range; accepted: %s to %s", key->name,
			       text, key->min, key->max);
	if (key->units == jstd_units_count)
		return fail_at(line, "%s = \"%s\" is not a whole number; accepted: %s to %s",
			       key->name, text, key->min, key->max);
	units_list(key->units, units, sizeof(units));
	return fail_at(line, "%s = \"%s\" is not a number with a unit; accepted: %s to %s, in %s",
		       key->name, text, key->min, key->max, units);
}

static const char *last_value(cfg_opt_t *opt)
{
	const char *text = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);

	return text ? text : "";
}

static int on_key(cfg_t *cfg, cfg_opt_t *opt)
{
	for (unsigned int i = 0; i < KEYS; i++) {
		if (strcmp(keys[i].name, opt->name))
			continue;
		reading.line[i] = cfg->line;
		return key_check(&keys[i], last_value(opt), cfg->line) ? -1 : 0;
	}
	return -1;
}

static int on_count_latency(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);

	if (!strcmp(text, "once") || !strcmp(text, "each"))
		return 0;
	fail_at(cfg->line, "count_latency = \"%s\"; accepted: once, each", text);
	return -1;
}

static int on_scheduling(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);

	if (!strcmp(text, "realtime") || !strcmp(text, "normal"))
		return 0;
	fail_at(cfg->line, "scheduling = \"%s\"; accepted: realtime, normal", text);
	return -1;
}

static int on_socket(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);
	size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (text[0] == '/' && strlen(text) <= most)
		return 0;
	fail_at(cfg->line, "socket = \"%s\"; accepted: an absolute path of at most %zu bytes", text,
		most);
	return -1;
}

/* A name of the user or group database, or a number. */
static bool id_parse(const char *text, uint32_t *id)
{
	uint64_t value;

	if (jstd_quantity_parse(text, jstd_units_count, &value) || strchr(text, '.') ||
	    value >= UINT32_MAX)
		return false;
	*id = (uint32_t)value;
	return true;
}

static bool user_find(const char *text, uid_t *uid)
{
	struct passwd *entry = getpwnam(text);

	if (entry)
		*uid = entry->pw_uid;
	return entry || id_parse(text, uid);
}

static bool group_find(const char *text, gid_t *gid)
{
	struct group *entry = getgrnam(text);

	if (entry)
		*gid = entry->gr_gid;
	return entry || id_parse(text, gid);
}

static int on_admin_group(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);
	gid_t gid;

	if (!text[0] || group_find(text, &gid))
		return 0;
	fail_at(cfg->line, "admin_group = \"%s\" is not known here; accepted: a group or its number",
		text);
	return -1;
}

static int on_user(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);
	uid_t uid;

	if (user_find(text, &uid))
		return 0;
	fail_at(cfg->line, "user = \"%s\" is not known here; accepted: a user or its number", text);
	return -1;
}

static int on_executable(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);

	if (text[0] == '/' || text[0] == '*')
		return 0;
	fail_at(cfg->line, "executable = \"%s\"; accepted: a glob that starts with / or *", text);
	return -1;
}

static int on_class(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);
	enum jst_class class;

	if (!strcmp(text, "deny") || !jst_class_parse(text, &class))
		return 0;
	fail_at(cfg->line, "class = \"%s\"; accepted: latency, throughput, bandwidth, deny", text);
	return -1;
}

static int on_weight(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = last_value(opt);
	uint32_t weight_milli;

	if (!jst_weight_parse(text, &weight_milli))
		return 0;
	fail_at(cfg->line, "weight = \"%s\"; accepted: 0.1 to 100, with at most three decimals", text);
	return -1;
}

static int on_rule(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *rule = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);

	if (cfg_getstr(rule, "class") || cfg_getstr(rule, "weight"))
		return 0;
	fail_at(cfg->line, "rule \"%s\" decides nothing; accepted: a class, a weight, or both",
		cfg_title(rule));
	return -1;
}

/* ---- the grammar ---------------------------------------------------------- */

static cfg_t *grammar(void)
{
	cfg_opt_t rule[] = {
		CFG_STR("user", NULL, CFGF_NONE),
		CFG_STR("executable", NULL, CFGF_NONE),
		CFG_STR("class", NULL, CFGF_NONE),
		CFG_STR("weight", NULL, CFGF_NONE),
		CFG_END(),
	};
	cfg_opt_t options[KEYS + 6] = {
		CFG_STR("socket", JST_SOCKET_DEFAULT, CFGF_NONE),
		CFG_STR("count_latency", "once", CFGF_NONE),
		CFG_STR("admin_group", "", CFGF_NONE),
		CFG_STR("scheduling", "realtime", CFGF_NONE),
		CFG_SEC("rule", rule, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
	};
	cfg_t *cfg;

	for (unsigned int i = 0; i < KEYS; i++)
		options[5 + i] = (cfg_opt_t)CFG_STR(keys[i].name, keys[i].preset, CFGF_NONE);
	options[5 + KEYS] = (cfg_opt_t)CFG_END();
	cfg = cfg_init(options, CFGF_NONE);
	if (!cfg)
		return NULL;
	cfg_set_error_function(cfg, on_error);
	for (unsigned int i = 0; i < KEYS; i++)
		cfg_set_validate_func(cfg, keys[i].name, on_key);
	cfg_set_validate_func(cfg, "socket", on_socket);
	cfg_set_validate_func(cfg, "scheduling", on_scheduling);
	cfg_set_validate_func(cfg, "count_latency", on_count_latency);
	cfg_set_validate_func(cfg, "admin_group", on_admin_group);
	cfg_set_validate_func(cfg, "rule", on_rule);
	cfg_set_validate_func(cfg, "rule|user", on_user);
	cfg_set_validate_func(cfg, "rule|executable", on_executable);
	cfg_set_validate_func(cfg, "rule|class", on_class);
	cfg_set_validate_func(cfg, "rule|weight", on_weight);
	return cfg;
}

static int parse(cfg_t *cfg)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file;
	int ret;

	ret = jstd_conf_text_read(reading.path, &text, &bytes);
	if (ret == -EFBIG)
		fail_at(0, "accepted: a regular file of at most %u bytes", JSTD_CONF_BYTES_MAX);
	if (ret || !bytes)
		goto out;
	file = fmemopen(text, bytes, "r");
	if (file) {
		cfg->filename = strdup(reading.path);
		ret = cfg_parse_fp(cfg, file) == CFG_SUCCESS ? 0 : -EINVAL;
		fclose(file);
	} else {
		ret = -errno;
	}
out:
	free(text);
	if (ret)
		fail_at(0, "%s", strerror(-ret));
	return ret;
}

/* ---- from text to struct, all of it valid by now ---------------------------- */

static uint64_t key_value(cfg_t *cfg, enum key_id id)
{
	return preset_value(&keys[id], cfg_getstr(cfg, keys[id].name));
}

static void card_fill(struct jst_card *card, cfg_t *cfg)
{
	card->max_bytes_per_s = key_value(cfg, KEY_MAX_RATE);
	card->max_bytes_small_per_s = key_value(cfg, KEY_MAX_RATE_SMALL);
	card->max_ops_per_s = key_value(cfg, KEY_MAX_OPS);
	card->token_bytes_large = (uint32_t)key_value(cfg, KEY_TOKEN_SIZE);
	card->token_bytes_small = (uint32_t)key_value(cfg, KEY_TOKEN_SIZE_LATENCY);
	card->count_latency_once = !strcmp(cfg_getstr(cfg, "count_latency"), "once");
}

/* The key that was written last is the one to blame. */
static int fail_pair(cfg_t *cfg, enum key_id a, enum key_id b, const char *why)
{
	enum key_id first = reading.line[a] >= reading.line[b] ? a : b;
	enum key_id second = first == a ? b : a;

	return fail_at(reading.line[first], "%s = \"%s\" does not go with %s = \"%s\": %s",
		       keys[first].name, cfg_getstr(cfg, keys[first].name), keys[second].name,
		       cfg_getstr(cfg, keys[second].name), why);
}

static int check_token(cfg_t *cfg, enum key_id size, enum key_id rate)
{
	uint64_t token_bytes = key_value(cfg, size);
	uint64_t bytes_per_s = key_value(cfg, rate);
	unsigned __int128 ops = (unsigned __int128)token_bytes * key_value(cfg, KEY_MAX_OPS);

	if (token_bytes * 1000000000ull / bytes_per_s < TOKEN_INTERVAL_NS_MIN)
		return fail_pair(cfg, size, rate,
				 "a token must last for 50 ns or more at that rate");
	if (key_value(cfg, KEY_HORIZON) / (token_bytes * 1000000000ull / bytes_per_s) >
	    JST_RING_TOKENS)
		return fail_pair(cfg, KEY_HORIZON, size,
				 "horizon must not hold more than 1024 tokens");
	if (ops / bytes_per_s > TOKEN_OPS_MAX)
		return fail_pair(cfg, KEY_MAX_OPS, rate,
				 "a token must not hold more than 1000000000 operations");
	return 0;
}

static int check_together(cfg_t *cfg)
{
	if (key_value(cfg, KEY_MAX_RATE_SMALL) > key_value(cfg, KEY_MAX_RATE))
		return fail_pair(cfg, KEY_MAX_RATE_SMALL, KEY_MAX_RATE,
				 "max_rate_small must be at most max_rate");
	if (key_value(cfg, KEY_TOKEN_SIZE_LATENCY) > key_value(cfg, KEY_TOKEN_SIZE))
		return fail_pair(cfg, KEY_TOKEN_SIZE_LATENCY, KEY_TOKEN_SIZE,
				 "token_size_latency must be at most token_size");
	if (key_value(cfg, KEY_HORIZON) < 2 * key_value(cfg, KEY_TICK))
		return fail_pair(cfg, KEY_HORIZON, KEY_TICK, "horizon must be two ticks or more");
	if (check_token(cfg, KEY_TOKEN_SIZE, KEY_MAX_RATE))
		return -EINVAL;
	return check_token(cfg, KEY_TOKEN_SIZE_LATENCY, KEY_MAX_RATE_SMALL);
}

static int rule_fill(struct jstd_rule *rule, cfg_t *cfg)
{
	const char *user = cfg_getstr(cfg, "user");
	const char *executable = cfg_getstr(cfg, "executable");
	const char *class = cfg_getstr(cfg, "class");
	const char *weight = cfg_getstr(cfg, "weight");

	rule->name = strdup(cfg_title(cfg));
	rule->executable = executable ? strdup(executable) : NULL;
	if (!rule->name || (executable && !rule->executable))
		return -ENOMEM;
	rule->has_user = user && user_find(user, &rule->uid);
	rule->deny = class && !strcmp(class, "deny");
	rule->has_class = class && !jst_class_parse(class, &rule->class);
	rule->has_weight = weight && !jst_weight_parse(weight, &rule->weight_milli);
	return 0;
}

static int rules_fill(struct jstd_conf *conf, cfg_t *cfg)
{
	size_t n = cfg_size(cfg, "rule");

	conf->rules = n ? calloc(n, sizeof(*conf->rules)) : NULL;
	if (n && !conf->rules)
		return -ENOMEM;
	for (conf->n_rules = 0; conf->n_rules < n; ) {
		struct jstd_rule *rule = &conf->rules[conf->n_rules];
		int ret = rule_fill(rule, cfg_getnsec(cfg, "rule", (unsigned int)conf->n_rules));

		conf->n_rules++;
		if (ret)
			return ret;
	}
	return 0;
}

static int fill(struct jstd_conf *conf, cfg_t *cfg)
{
	int ret = check_together(cfg);

	if (ret)
		return ret;
	card_fill(&conf->card, cfg);
	conf->tick_ns = key_value(cfg, KEY_TICK);
	conf->horizon_ns = key_value(cfg, KEY_HORIZON);
	conf->max_clients = (uint32_t)key_value(cfg, KEY_MAX_CLIENTS);
	conf->has_admin_group = group_find(cfg_getstr(cfg, "admin_group"), &conf->admin_gid);
	conf->realtime = !strcmp(cfg_getstr(cfg, "scheduling"), "realtime");
	conf->socket_path = strdup(cfg_getstr(cfg, "socket"));
	ret = conf->socket_path ? rules_fill(conf, cfg) : -ENOMEM;
	if (ret)
		fail_at(0, "%s", strerror(-ret));
	return ret;
}

int jstd_conf_load(struct jstd_conf *conf, const char *path, char *error, size_t error_bytes)
{
	struct jstd_conf fresh = { 0 };
	cfg_t *cfg = grammar();
	int ret = cfg ? 0 : -ENOMEM;

	memset(&reading, 0, sizeof(reading));
	reading.error = error;
	reading.error_bytes = error_bytes;
	reading.path = path;
	error[0] = '\0';
	if (!ret && path)
		ret = parse(cfg);
	if (!ret)
		ret = fill(&fresh, cfg);
	if (!ret)
		*conf = fresh;
	else
		jstd_conf_free(&fresh);
	if (cfg)
		cfg_free(cfg);
	return ret;
}

void jstd_conf_free(struct jstd_conf *conf)
{
	for (size_t i = 0; i < conf->n_rules; i++) {
		free(conf->rules[i].name);
		free(conf->rules[i].executable);
	}
	free(conf->rules);
	free(conf->socket_path);
	memset(conf, 0, sizeof(*conf));
}
