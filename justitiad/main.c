// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* main.c - justitiad(8): the life of the process. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "clock.h"
#include "daemon.h"
#include "log.h"

#define ERROR_BYTES 1024

const char *argp_program_version = "justitiad " JST_VERSION;

struct options {
	const char *config; /* NULL: the default file, or no file if there is none */
	const char *socket;
	bool check;
	bool syslog;
};

/* What a reload needs beside the daemon. */
struct process {
	struct jstd_daemon daemon;
	struct options options;
};

/* ---- the command line ------------------------------------------------------------ */

enum { OPT_CHECK = 256, OPT_FOREGROUND, OPT_SYSLOG };

static const struct argp_option option_table[] = {
	{ "config", 'c', "FILE", 0, "Read FILE instead of " JSTD_CONF_DEFAULT, 0 },
	{ "socket", 's', "PATH", 0, "Listen at PATH, whatever the configuration says", 0 },
	{ "check-config", OPT_CHECK, NULL, 0, "Say whether the configuration is valid, and exit", 0 },
	{ "syslog", OPT_SYSLOG, NULL, 0, "Log to syslog instead of stderr", 0 },
	{ "foreground", OPT_FOREGROUND, NULL, 0, "Accepted; there is no other way to run", 0 },
	{ 0 },
};

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'c':
		options->config = arg;
		return 0;
	case 's':
		options->socket = arg;
		return 0;
	case OPT_CHECK:
		options->check = true;
		return 0;
	case OPT_SYSLOG:
		options->syslog = true;
		return 0;
	case OPT_FOREGROUND:
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "\"%s\": accepted: options only", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = option_parse,
	.doc = "Shares RDMA cards between the applications of this host.",
};

/* ---- the configuration ------------------------------------------------------------- */

static const char *config_path(const struct options *options)
{
	if (options->config)
		return options->config;
	return access(JSTD_CONF_DEFAULT, F_OK) ? NULL : JSTD_CONF_DEFAULT;
}

static int config_load(const struct options *options, struct jstd_conf *conf)
{
	char error[ERROR_BYTES];
	int ret = jstd_conf_load(conf, config_path(options), error, sizeof(error));

	if (ret)
		jstd_log(LOG_ERR, "%s", error);
	return ret;
}

static int config_check(const struct options *options)
{
	const char *path = config_path(options);
	struct jstd_conf conf;

	if (config_load(options, &conf))
		return EXIT_FAILURE;
	printf("%s: valid\n", path ? path : "the built-in configuration");
	jstd_conf_free(&conf);
	return EXIT_SUCCESS;
}

static void reload(struct process *process)
{
	struct jstd_daemon *daemon = &process->daemon;
	struct jstd_conf conf;

	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   (unsigned long long)(jstd_now_ns() / 1000));
	if (config_load(&process->options, &conf)) {
		jstd_log(LOG_ERR, "not reloaded; the configuration in force stays");
	} else {
		if (!process->options.socket && strcmp(conf.socket_path, daemon->conf.socket_path))
			jstd_log(LOG_WARNING, "the socket stays at %s until a restart",
				 daemon->listener.path);
		jstd_daemon_reconfigure(daemon, &conf);
		jstd_log(LOG_NOTICE, "reloaded; rules apply to clients that attach from now on");
	}
	sd_notify(0, "READY=1");
}

/* ---- signals ------------------------------------------------------------------------ */

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *process)
{
	(void)source;
	(void)info;
	reload(process);
	return 0;
}

static int on_end(sd_event_source *source, const struct signalfd_siginfo *info, void *process)
{
	jstd_log(LOG_NOTICE, "ending, signal %u", info->ssi_signo);
	(void)process;
	return sd_event_exit(sd_event_source_get_event(source), EXIT_SUCCESS);
}

static int signals_begin(struct process *process)
{
	sd_event *event = process->daemon.event;
	sigset_t taken;
	int ret;

	sigemptyset(&taken);
	sigaddset(&taken, SIGHUP);
	sigaddset(&taken, SIGINT);
	sigaddset(&taken, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &taken, NULL))
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	ret = sd_event_add_signal(event, NULL, SIGHUP, on_hangup, process);
	if (ret >= 0)
		ret = sd_event_add_signal(event, NULL, SIGINT, on_end, process);
	if (ret >= 0)
		ret = sd_event_add_signal(event, NULL, SIGTERM, on_end, process);
	return ret;
}

/* ---- the life ------------------------------------------------------------------------- */

static int begin(struct process *process)
{
	struct jstd_daemon *daemon = &process->daemon;
	const char *socket = process->options.socket;
	struct jstd_conf conf;
	int ret;

	ret = config_load(&process->options, &conf);
	if (ret)
		return ret;
	jstd_daemon_reconfigure(daemon, &conf);
	ret = signals_begin(process);
	if (ret < 0)
		return ret;
	return jstd_listener_open(daemon, socket ? socket : daemon->conf.socket_path);
}

static int live(struct process *process)
{
	int ret;

	jstd_log(LOG_NOTICE, "listening at %s", process->daemon.listener.path);
	sd_notify(0, "READY=1");
	ret = sd_event_loop(process->daemon.event);
	sd_notify(0, "STOPPING=1");
	if (ret < 0)
		jstd_log(LOG_ERR, "event loop: %s", strerror(-ret));
	return ret;
}

int main(int argc, char **argv)
{
	static struct process process;
	sd_event *event = NULL;
	int ret;

	argp_parse(&argp, argc, argv, 0, NULL, &process.options);
	jstd_log_open(process.options.syslog && !process.options.check);
	if (process.options.check)
		return config_check(&process.options);
	ret = sd_event_new(&event);
	if (ret < 0) {
		jstd_log(LOG_ERR, "event loop: %s", strerror(-ret));
		return EXIT_FAILURE;
	}
	jstd_daemon_init(&process.daemon, event);
	ret = begin(&process);
	if (ret >= 0)
		ret = live(&process);
	jstd_daemon_close(&process.daemon);
	sd_event_unref(event);
	return ret < 0 ? EXIT_FAILURE : ret;
}
