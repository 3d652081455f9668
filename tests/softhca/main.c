// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* softhca: starts, uses, watches and ends worlds of emulated hosts.  See softhca(1). */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "card.h"
#include "config.h"
#include "fault.h"
#include "hca.h"
#include "report.h"
#include "sysfs.h"
#include "world.h"

#define MAX_RUN_NS 3600000000000ull

enum { MAX_SETTINGS = 256, EXIT_USAGE = 2, EXIT_NO_COMMAND = 127 };

struct options {
	const char *world_opt, *host, *faults;
	int is_json;
	/* key, value in command-line order; values end where the argument does */
	const char *key[MAX_SETTINGS], *value[MAX_SETTINGS];
	int settings;
	char **rest;
};

struct command {
	const char *name, *arguments, *help;
	const char *allowed;	/* letters of the options it takes */
	int (*run)(struct options *o);
};

/* ---- messages ---- */

__attribute__((format(printf, 1, 2)))
static int complain(const char *format, ...)
{
	va_list args;

	fputs("softhca: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\n", stderr);
	return EXIT_FAILURE;
}

static int find_world(const struct options *o, char world[HCA_PATH_LEN])
{
	if (hca_world_dir(o->world_opt, world, HCA_PATH_LEN))
		return complain("the world's path is longer than %d", HCA_PATH_LEN - 1);
	return 0;
}

/* The configuration of a world which is up. */
static int find_running(const struct options *o, struct hca_config *c, char world[HCA_PATH_LEN])
{
	char err[HCA_ERROR_LEN];
	char *real;

	if (find_world(o, world))
		return EXIT_FAILURE;
	if (hca_config_load(c, world, err, sizeof(err)))
		return complain("%s", err);
	if (hca_world_card(world) <= 0)
		return complain("the card process of %s has ended (see card.log there); "
				"'softhca down' cleans up, 'softhca up' starts anew", world);
	real = realpath(world, NULL);
	if (real && strlen(real) < HCA_PATH_LEN)
		strcpy(world, real);
	free(real);
	return 0;
}

/* ---- up ---- */

/* The model first, whatever the order on the command line: it resets the others. */
static int apply_settings(const struct options *o, struct hca_config *c, char *err,
			  size_t err_size)
{
	hca_config_default(c);
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < o->settings; i++) {
			int is_first = !strcmp(o->key[i], "model") ||
				       !strcmp(o->key[i], "clock");

			if (is_first != !pass)
				continue;
			if (hca_config_set(c, o->key[i], o->value[i], err, err_size))
				return -EINVAL;
		}
	}
	return hca_config_check(c, err, err_size);
}

static int set_faults(const char *world, const struct hca_faults *f)
{
	int rc = hca_card_set_faults(world, f);

	return rc ? complain("%s: faults: %s", world, strerror(-rc)) : 0;
}

static int run_up(struct options *o)
{
	static struct hca_config c;
	static struct hca_faults faults;
	char world[HCA_PATH_LEN], err[HCA_ERROR_LEN], banner[128];

	if (apply_settings(o, &c, err, sizeof(err))) {
		complain("%s", err);
		return EXIT_USAGE;
	}
	if (o->faults && hca_fault_load(&faults, &c, o->faults, err, sizeof(err))) {
		complain("%s", err);
		return EXIT_USAGE;
	}
	if (find_world(o, world))
		return EXIT_FAILURE;
	if (hca_world_up(&c, world, err, sizeof(err)))
		return complain("%s", err);
	if (o->faults && set_faults(world, &faults)) {
		hca_world_down(world, err, sizeof(err));
		return EXIT_FAILURE;
	}
	hca_config_banner(&c, banner, sizeof(banner));
	printf("%s: %s, device %s, link %s, hosts", world, banner, hca_device[c.device].driver,
	       c.is_eth ? "eth" : "ib");
	for (uint32_t i = 0; i < c.hosts; i++)
		printf(" %s", c.host[i]);
	printf("\n");
	return EXIT_SUCCESS;
}

static int run_down(struct options *o)
{
	char world[HCA_PATH_LEN], err[HCA_ERROR_LEN];

	if (find_world(o, world))
		return EXIT_FAILURE;
	if (hca_world_down(world, err, sizeof(err)))
		return complain("%s", err);
	return EXIT_SUCCESS;
}

/* ---- run ---- */

/* ../lib/libsofthca.so as seen from this executable */
static int find_library(char *out, size_t out_size)
{
	char exe[HCA_PATH_LEN];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n < 0)
		return complain("/proc/self/exe: %s", strerror(errno));
	exe[n] = 0;
	for (int up = 0; up < 2; up++) {
		slash = strrchr(exe, '/');
		if (slash)
			*slash = 0;
	}
	if (snprintf(out, out_size, "%s/lib/libsofthca.so", exe) >= (int)out_size)
		return complain("%s: path too long", exe);
	if (access(out, R_OK))
		return complain("%s: %s", out, strerror(errno));
	/* ld.so splits LD_PRELOAD at these and knows no escape. */
	if (strpbrk(out, ": "))
		return complain("%s: a path with a blank or colon cannot be preloaded", out);
	return 0;
}

/* Ours goes first and whoever is preloaded already stays; once is enough. */
static int set_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	size_t length = strlen(library);
	const char *at;
	char *value;
	int rc;

	if (!old || !*old)
		return setenv("LD_PRELOAD", library, 1);
	at = strstr(old, library);
	if (at && (at == old || strchr(": ", at[-1])) && strchr(": ", at[length]))
		return 0;
	if (asprintf(&value, "%s:%s", library, old) < 0)
		return -1;
	rc = setenv("LD_PRELOAD", value, 1);
	free(value);
	return rc;
}

static int find_host(const struct options *o, const struct hca_config *c, const char *world)
{
	int host = o->host ? hca_host_index(c, o->host) : 0;

	if (host >= 0)
		return host;
	complain("--host %s: no such host in %s; there are:", o->host, world);
	for (uint32_t i = 0; i < c->hosts; i++)
		fprintf(stderr, "  %s\n", c->host[i]);
	return -ENOENT;
}

static int run_run(struct options *o)
{
	static struct hca_config c;
	char world[HCA_PATH_LEN], library[HCA_PATH_LEN + 32], sysfs[HCA_PATH_LEN], banner[128];
	int host;

	if (!o->rest[0]) {
		complain("run: which command?  softhca run [--host NAME] -- COMMAND ...");
		return EXIT_USAGE;
	}
	if (find_running(o, &c, world) || find_library(library, sizeof(library)))
		return EXIT_FAILURE;
	host = find_host(o, &c, world);
	if (host < 0)
		return EXIT_FAILURE;
	if (hca_sysfs_path(&c, world, (uint32_t)host, sysfs, sizeof(sysfs)))
		return complain("%s: path too long", world);
	if (setenv("SYSFS_PATH", sysfs, 1) || setenv("SOFTHCA_WORLD", world, 1) ||
	    setenv("SOFTHCA_HOST", c.host[host], 1) ||
	    setenv("SOFTHCA_CLOCK", c.is_virtual ? "virtual" : "real", 1) || set_preload(library))
		return complain("environment: %s", strerror(errno));
	if (isatty(STDERR_FILENO)) {
		hca_config_banner(&c, banner, sizeof(banner));
		fprintf(stderr, "softhca: host %s, %s\n", c.host[host], banner);
	}
	execvp(o->rest[0], o->rest);
	complain("%s: %s", o->rest[0], strerror(errno));
	return EXIT_NO_COMMAND;
}

/* ---- clock ---- */

/* "50ms": a whole number and its unit. */
static int parse_time(const char *text, uint64_t *ns)
{
	static const struct { const char *unit; uint64_t ns; } unit[] = {
		{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 },
	};
	char *end;

	errno = 0;
	*ns = strtoull(text, &end, 10);
	for (size_t i = 0; i < sizeof(unit) / sizeof(unit[0]); i++) {
		if (strcmp(end, unit[i].unit))
			continue;
		*ns *= unit[i].ns;
		if (end == text || errno || !*ns || *ns > MAX_RUN_NS)
			break;
		return 0;
	}
	return complain("clock run: '%s': expected a time from 1ns to 3600s, with its unit "
			"(ns, us, ms, s)", text);
}

static int run_clock(struct options *o)
{
	static struct hca_config c;
	char world[HCA_PATH_LEN];
	struct hca_seg *seg;
	uint64_t ns = 0;
	int rc;

	if (find_running(o, &c, world))
		return EXIT_FAILURE;
	if (!c.is_virtual)
		return complain("%s: its clock is the machine's; 'softhca up --clock virtual' "
				"makes a world with one of its own", world);
	rc = hca_seg_map(world, true, &seg);
	if (rc)
		return complain("%s/fabric: %s", world, strerror(-rc));
	if (o->rest[0] && !strcmp(o->rest[0], "run") && o->rest[1] && !o->rest[2]) {
		if (parse_time(o->rest[1], &ns))
			return EXIT_USAGE;
		vc_run_until(&seg->vc, seg->vc.now_ns + ns);
	} else if (o->rest[0] && !o->rest[1] && !strcmp(o->rest[0], "go")) {
		vc_set_hold(&seg->vc, VC_NEVER);
	} else if (o->rest[0] && !o->rest[1] && !strcmp(o->rest[0], "hold")) {
		vc_set_hold(&seg->vc, 0);
	} else if (o->rest[0]) {
		complain("clock: expected run TIME, go or hold");
		return EXIT_USAGE;
	}
	printf("%.9f s, %s\n", (double)(seg->vc.now_ns - VC_START_NS) / 1e9,
	       seg->vc.hold_ns == VC_NEVER ? "free" : "held");
	return EXIT_SUCCESS;
}

/* ---- stat ---- */

static int run_stat(struct options *o)
{
	static struct hca_config c;
	char world[HCA_PATH_LEN];
	struct hca_stat *st;
	int rc;

	if (find_running(o, &c, world))
		return EXIT_FAILURE;
	rc = hca_stat_open(world, &st);
	if (rc)
		return complain("%s/fabric: %s", world, strerror(-rc));
	if (o->is_json)
		hca_report_json(st);
	else
		hca_report_table(st);
	hca_stat_close(st);
	return EXIT_SUCCESS;
}

/* ---- fault ---- */

static int show_faults(const char *world)
{
	static struct hca_faults f;
	int rc = hca_card_get_faults(world, &f);

	if (rc)
		return complain("%s/fabric: %s", world, strerror(-rc));
	for (uint32_t i = 0; i < f.rules; i++)
		printf("line %u: fitted %llu times, acted %llu times\n", f.rule[i].line,
		       (unsigned long long)f.rule[i].seen, (unsigned long long)f.rule[i].acted);
	return EXIT_SUCCESS;
}

static int run_fault(struct options *o)
{
	static struct hca_config c;
	static struct hca_faults f;
	char world[HCA_PATH_LEN], err[HCA_ERROR_LEN];

	if (find_running(o, &c, world))
		return EXIT_FAILURE;
	if (!o->rest[0])
		return show_faults(world);
	if (o->rest[1]) {
		complain("fault: unexpected argument '%s'", o->rest[1]);
		return EXIT_USAGE;
	}
	if (strcmp(o->rest[0], "off") && hca_fault_load(&f, &c, o->rest[0], err, sizeof(err))) {
		complain("%s", err);
		return EXIT_USAGE;
	}
	return set_faults(world, &f);
}

/* ---- the command line ---- */

static const struct command command[] = {
	{ "up", "[options]", "start a world of emulated hosts", "wHDlmdnstfco", run_up },
	{ "run", "[--host NAME] -- COMMAND ...", "run a program on a host (default: the first)",
	  "wh", run_run },
	{ "clock", "[run TIME | go | hold]", "a virtual clock: show it, let it run, hold it", "w",
	  run_clock },
	{ "stat", "[--json]", "counters of hosts and queue pairs", "wj", run_stat },
	{ "fault", "[FILE | off]", "new rules of faults; without: what the rules did", "w", run_fault },
	{ "down", "", "end the world and remove its files", "w", run_down },
};

static const struct option option[] = {
	{ "world", required_argument, NULL, 'w' },
	{ "hosts", required_argument, NULL, 'H' },
	{ "device", required_argument, NULL, 'D' },
	{ "link", required_argument, NULL, 'l' },
	{ "model", required_argument, NULL, 'm' },
	{ "driver", required_argument, NULL, 'd' },
	{ "clock", required_argument, NULL, 'c' },
	{ "hold", no_argument, NULL, 'o' },
	{ "slowdown", required_argument, NULL, 'n' },
	{ "seed", required_argument, NULL, 's' },
	{ "set", required_argument, NULL, 't' },
	{ "faults", required_argument, NULL, 'f' },
	{ "host", required_argument, NULL, 'h' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'x' },
	{ NULL, 0, NULL, 0 },
};

static int usage(FILE *f)
{
	fputs("usage: softhca COMMAND [--world DIR] ...\n\n", f);
	for (size_t i = 0; i < sizeof(command) / sizeof(command[0]); i++)
		fprintf(f, "  %-5s %-30s %s\n", command[i].name, command[i].arguments,
			command[i].help);
	fputs("\nOptions of up (defaults in brackets):\n"
	      "  --hosts A,B,...   names of the hosts [a,b]\n"
	      "  --device NAME     mlx5 or mlx4 [mlx5]\n"
	      "  --link LAYER      ib or eth [ib]\n"
	      "  --model NAME      ib56, roce40, ib100 or off [ib56]\n"
	      "  --slowdown N      real time per model time, 1 to 1000000 [50; off: 1]\n"
	      "  --clock NAME      real or virtual; virtual: one for all programs, exact [real]\n"
	      "  --hold            a virtual clock stands until 'softhca clock'\n"
	      "  --driver NAME     card or inline; inline needs model off [card; off: inline]\n"
	      "  --seed N          of the model's random numbers [1]\n"
	      "  --set KEY=VALUE   one parameter of the model; may be repeated\n"
	      "  --faults FILE     rules of what goes wrong\n\n"
	      "The world lies in --world, $SOFTHCA_WORLD, or a directory of the user's own.\n"
	      "softhca(1) lists the parameters and the rules.\n", f);
	return f == stdout ? EXIT_SUCCESS : EXIT_USAGE;
}

static int add_setting(struct options *o, const char *key, const char *value)
{
	if (o->settings == MAX_SETTINGS)
		return complain("more than %d settings", MAX_SETTINGS);
	o->key[o->settings] = key;
	o->value[o->settings++] = value;
	return 0;
}

static int add_override(struct options *o, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text)
		return complain("--set %s: expected KEY=VALUE", text);
	*equals = 0;
	return add_setting(o, text, equals + 1);
}

static int take_option(struct options *o, int letter, const char *name)
{
	switch (letter) {
	case 'w':
		o->world_opt = optarg;
		if (!*optarg)
			return complain("--world: an empty path");
		return 0;
	case 'h':
		o->host = optarg;
		return 0;
	case 'f':
		o->faults = optarg;
		return 0;
	case 'j':
		o->is_json = 1;
		return 0;
	case 't':
		return add_override(o, optarg);
	case 'o':
		return add_setting(o, "hold", "yes");
	default:
		return add_setting(o, name, optarg);
	}
}

static int parse(const struct command *c, struct options *o, int argc, char **argv)
{
	int letter, index = 0;

	/* + : the options of the command to be run are its own */
	while ((letter = getopt_long(argc, argv, "+", option, &index)) != -1) {
		if (letter == '?')
			return EXIT_USAGE;
		if (letter == 'x')
			exit(usage(stdout));
		if (!strchr(c->allowed, letter)) {
			complain("%s does not take --%s", c->name, option[index].name);
			return EXIT_USAGE;
		}
		if (take_option(o, letter, option[index].name))
			return EXIT_USAGE;
	}
	o->rest = argv + optind;
	if (c->run != run_run && c->run != run_fault && c->run != run_clock && *o->rest) {
		complain("%s: unexpected argument '%s'", c->name, *o->rest);
		return EXIT_USAGE;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct options o;
	int rc;

	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))
		return usage(stdout);
	for (size_t i = 0; i < sizeof(command) / sizeof(command[0]); i++) {
		if (strcmp(command[i].name, argv[1]))
			continue;
		argv[1] = argv[0];
		rc = parse(&command[i], &o, argc - 1, argv + 1);
		return rc ? rc : command[i].run(&o);
	}
	complain("'%s' is no command; there are up, run, stat, fault and down", argv[1]);
	return EXIT_USAGE;
}
