// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* integrity_options.c - the command line of the program integrity. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "integrity.h"
#include "post.h"

static const char usage[] =
	"integrity --socket PATH [--server] [options, the same on both sides]\n"
	"  --device NAME     RDMA device (default: the first)\n"
	"  --gid N           GID index (default: found by itself, none on InfiniBand)\n"
	"  --seed N          of everything random (default 1)\n"
	"  --count N         operations per queue pair (default 1000)\n"
	"  --seconds N       instead: for so long\n"
	"  --max-bytes N     largest message (default 1000000)\n"
	"  --qps N           queue pairs, 1 to 64 (default 2)\n"
	"  --depth N         work requests that a send queue holds (default 64)\n"
	"  --list N          at most so many in one post, 1 to 16 (default 8)\n"
	"  --sge N           scatter/gather entries, 1 to 16 (default 4)\n"
	"  --inline N        inline bytes, 0 is none (default 64)\n"
	"  --unsignaled N    per cent of requests without completion (default 50)\n"
	"  --signal-all      queue pairs with sq_sig_all\n"
	"  --api post|wr     ibv_post_send() or ibv_wr_*() (default post)\n"
	"  --cq legacy|ex    kind of completion queue (default legacy)\n"
	"  --events          sleep on a completion channel\n"
	"  --ops LIST        of write,write_imm,send,send_imm,read,cas,add (default all)\n"
	"  --timeout S       seconds that a round may take (default 60)\n"
	"  --linger MS       stay so long at the end, to be looked at (default 0)\n";

static uint64_t number(const char *option, const char *text, uint64_t lo, uint64_t hi)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 0);

	if (!*text || *end || *text == '-' || value < lo || value > hi)
		t_die(2, "--%s '%s': a number from %llu to %llu is wanted", option, text,
		      (unsigned long long)lo, (unsigned long long)hi);
	return value;
}

static bool choice(const char *option, const char *text, const char *no, const char *yes)
{
	if (strcmp(text, no) && strcmp(text, yes))
		t_die(2, "--%s '%s': %s or %s is wanted", option, text, no, yes);
	return !strcmp(text, yes);
}

static uint32_t ops_list(char *text)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} known[] = {
		{"write", IBV_WR_RDMA_WRITE},	{"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
		{"send", IBV_WR_SEND},		{"send_imm", IBV_WR_SEND_WITH_IMM},
		{"read", IBV_WR_RDMA_READ},	{"cas", IBV_WR_ATOMIC_CMP_AND_SWP},
		{"add", IBV_WR_ATOMIC_FETCH_AND_ADD},
	};
	uint32_t ops = 0;

	for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
		size_t i = 0;

		while (i < sizeof(known) / sizeof(known[0]) && strcmp(name, known[i].name))
			i++;
		if (i == sizeof(known) / sizeof(known[0]))
			t_die(2, "--ops: unknown operation '%s'\n%s", name, usage);
		ops |= 1u << known[i].opcode;
	}
	return ops;
}

enum {
	OPT_SOCKET, OPT_SERVER, OPT_DEVICE, OPT_GID, OPT_SEED, OPT_COUNT, OPT_MAX_BYTES, OPT_QPS,
	OPT_DEPTH, OPT_LIST, OPT_SGE, OPT_INLINE, OPT_UNSIGNALED, OPT_SIGNAL_ALL, OPT_API, OPT_CQ,
	OPT_EVENTS, OPT_OPS, OPT_TIMEOUT, OPT_LINGER, OPT_SECONDS,
};

static const struct option long_options[] = {
	{"socket", 1, NULL, OPT_SOCKET},     {"server", 0, NULL, OPT_SERVER},
	{"device", 1, NULL, OPT_DEVICE},     {"gid", 1, NULL, OPT_GID},
	{"seed", 1, NULL, OPT_SEED},	     {"count", 1, NULL, OPT_COUNT},
	{"max-bytes", 1, NULL, OPT_MAX_BYTES}, {"qps", 1, NULL, OPT_QPS},
	{"depth", 1, NULL, OPT_DEPTH},	     {"list", 1, NULL, OPT_LIST},
	{"sge", 1, NULL, OPT_SGE},	     {"inline", 1, NULL, OPT_INLINE},
	{"unsignaled", 1, NULL, OPT_UNSIGNALED}, {"signal-all", 0, NULL, OPT_SIGNAL_ALL},
	{"api", 1, NULL, OPT_API},	     {"cq", 1, NULL, OPT_CQ},
	{"events", 0, NULL, OPT_EVENTS},     {"ops", 1, NULL, OPT_OPS},
	{"timeout", 1, NULL, OPT_TIMEOUT},   {"linger", 1, NULL, OPT_LINGER},
	{"seconds", 1, NULL, OPT_SECONDS},   {0},
};

static void set_traffic_option(struct t_integrity_options *options, int which, const char *name)
{
	struct t_traffic_options *traffic = &options->traffic;

	switch (which) {
	case OPT_SEED:
		traffic->seed = number(name, optarg, 0, UINT64_MAX);
		break;
	case OPT_MAX_BYTES:
		traffic->max_bytes = (uint32_t)number(name, optarg, 0, 1u << 30);
		break;
	case OPT_SGE:
		options->side.sge = traffic->sge = (uint32_t)number(name, optarg, 1, T_SEGMENTS);
		break;
	case OPT_INLINE:
		traffic->inline_bytes = (uint32_t)number(name, optarg, 0, 1024);
		options->side.inline_bytes = traffic->inline_bytes;
		break;
	case OPT_UNSIGNALED:
		traffic->unsignaled = (unsigned int)number(name, optarg, 0, 100);
		break;
	case OPT_SIGNAL_ALL:
		options->side.signal_all = true;
		break;
	case OPT_OPS:
		traffic->ops = ops_list(optarg);
		break;
	default:
		t_die(2, "usage: %s", usage);
	}
}

static void set_option(struct t_integrity_options *options, int which, const char *name)
{
	struct t_side_options *side = &options->side;

	switch (which) {
	case OPT_SOCKET:
		side->socket = optarg;
		break;
	case OPT_SERVER:
		side->server = true;
		break;
	case OPT_DEVICE:
		side->device = optarg;
		break;
	case OPT_GID:
		side->gid_index = (int)number(name, optarg, 0, 255);
		break;
	case OPT_COUNT:
		options->count = number(name, optarg, 1, UINT32_MAX);
		break;
	case OPT_QPS:
		side->qps = (uint32_t)number(name, optarg, 1, T_QPS);
		break;
	case OPT_DEPTH:
		side->send_wr = (uint32_t)number(name, optarg, 1, 4096);
		break;
	case OPT_LIST:
		options->list = (uint32_t)number(name, optarg, 1, T_LIST_MOST);
		break;
	case OPT_API:
		side->extended_qp = choice(name, optarg, "post", "wr");
		break;
	case OPT_CQ:
		side->extended_cq = choice(name, optarg, "legacy", "ex");
		break;
	case OPT_EVENTS:
		side->events = true;
		break;
	case OPT_TIMEOUT:
		options->timeout_ns = number(name, optarg, 1, 3600) * 1000000000;
		break;
	case OPT_SECONDS:
		options->seconds = (unsigned int)number(name, optarg, 1, 3600);
		break;
	case OPT_LINGER:
		options->linger_ms = (unsigned int)number(name, optarg, 0, 60000);
		break;
	default:
		set_traffic_option(options, which, name);
	}
}

void t_integrity_parse(struct t_integrity_options *options, int argc, char **argv)
{
	int which, index = 0;

	*options = (struct t_integrity_options){
		.side = {.qps = 2, .send_wr = 64, .sge = 4, .inline_bytes = 64, .gid_index = -1},
		.traffic = {.seed = 1, .max_bytes = 1000000, .sge = 4, .inline_bytes = 64,
			    .unsignaled = 50, .ops = ~0u},
		.count = 1000,
		.timeout_ns = 60000000000ull,
		.list = 8,
	};
	while ((which = getopt_long(argc, argv, "", long_options, &index)) != -1)
		set_option(options, which, which == '?' ? "" : long_options[index].name);
	if (!options->side.socket || optind < argc)
		t_die(2, "usage: %s", usage);
	if (options->list > options->side.send_wr)
		options->list = options->side.send_wr;
	/* a full queue must always be able to empty itself */
	options->traffic.signal_distance = options->side.send_wr - options->list + 1;
	options->side.recv_wr = 3 * options->side.send_wr;
	if (options->side.recv_wr > T_OPS_MOST)
		options->side.recv_wr = T_OPS_MOST;
}
