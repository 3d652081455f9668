// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* ctl.c - justitiactl(8): the command line. */
#include "ctl.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

const char *argp_program_version = "justitiactl " JST_VERSION;

struct command {
	const char *name;
	int (*run)(const struct jstd_ctl_options *options);
};

static int run_status(const struct jstd_ctl_options *options)
{
	struct json_object *status = jstd_ctl_status_get(options->socket);

	if (!status)
		return EXIT_FAILURE;
	if (options->json)
		puts(json_object_to_json_string_ext(status, JSON_C_TO_STRING_PRETTY |
								    JSON_C_TO_STRING_SPACED));
	else
		jstd_ctl_status_print(status);
	json_object_put(status);
	return EXIT_SUCCESS;
}

static const struct command commands[] = {
	{ "status", run_status },
};

struct invocation {
	struct jstd_ctl_options options;
	const struct command *command;
};

enum { OPT_JSON = 256 };

static const struct argp_option option_table[] = {
	{ "socket", 's', "PATH", 0, "Ask the daemon at PATH instead of " JST_SOCKET_DEFAULT, 0 },
	{ "json", OPT_JSON, NULL, 0, "Print the whole answer as JSON", 0 },
	{ 0 },
};

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
	struct invocation *invocation = state->input;

	switch (key) {
	case 's':
		invocation->options.socket = arg;
		return 0;
	case OPT_JSON:
		invocation->options.json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (invocation->command)
			argp_error(state, "\"%s\": one command at a time", arg);
		invocation->command = command_find(arg);
		if (!invocation->command)
			argp_error(state, "\"%s\" is not a command; accepted: status", arg);
		return 0;
	case ARGP_KEY_END:
		if (!invocation->command)
			argp_error(state, "no command; accepted: status");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_table,
	.parser = option_parse,
	.args_doc = "COMMAND",
	.doc = "Asks justitiad, which shares RDMA cards between applications.\v"
	       "Commands:\n"
	       "  status    the devices, their rates and tokens, and the clients\n",
};

int main(int argc, char **argv)
{
	struct invocation invocation = { .options.socket = JST_SOCKET_DEFAULT };

	argp_parse(&argp, argc, argv, 0, NULL, &invocation);
	return invocation.command->run(&invocation.options);
}
