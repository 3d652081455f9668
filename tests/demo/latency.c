// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * latency.c - what a latency-sensitive application sees: from post to completion.
 *
 *   latency [options]         the side that is written to
 *   latency [options] HOST    the side that writes and measures
 *
 * One small inline RDMA WRITE is outstanding at a time. The time runs from just
 * before ibv_post_send() until ibv_poll_cq() has returned its completion. (The
 * usual ib_write_lat measures half of a ping-pong, so it would see the card of
 * the other side twice and the completion never.)
 *
 * Without a gap each WRITE follows the last completion, and may so fall in step
 * with something periodic, such as the tokens of another application; a random
 * gap samples all of its phases alike.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "meet.h"
#include "rc.h"

#define NS_PER_S 1000000000ull
#define SAMPLES_MAX 10000000ul
#define COMPLETION_TIMEOUT_NS (60 * NS_PER_S)

struct options {
	const char *host; /* NULL: server */
	const char *device;
	const char *raw_path;
	unsigned long tcp_port;
	unsigned long message_bytes;
	unsigned long samples;
	unsigned long slowdown;
	unsigned long gap_us;
	unsigned long seed;
	double seconds; /* 0: until there are enough samples */
	double warmup_seconds;
	int gid_index;
	bool json;
};

struct samples {
	uint64_t *ns;
	size_t count;
	size_t room;
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- measuring ---------------------------------------------------------- */

static int wait_completion(struct t_rc *rc, uint64_t since_ns)
{
	struct ibv_wc wc;
	unsigned int polls = 0;
	int n;

	while (!(n = ibv_poll_cq(rc->cq, 1, &wc))) {
		if (++polls % 1024 || clock_ns() - since_ns < COMPLETION_TIMEOUT_NS)
			continue;
		fprintf(stderr, "no completion within %llu s\n",
			COMPLETION_TIMEOUT_NS / NS_PER_S);
		return -ETIMEDOUT;
	}
	if (n < 0 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion with error: %s\n",
			n < 0 ? "ibv_poll_cq failed" : ibv_wc_status_str(wc.status));
		return -EIO;
	}
	return 0;
}

static int measure_one(struct t_rc *rc, struct ibv_send_wr *wr, uint64_t *out_ns)
{
	struct ibv_send_wr *bad;
	uint64_t start_ns = clock_ns();
	int ret = ibv_post_send(rc->qp, wr, &bad);

	if (ret) {
		fprintf(stderr, "ibv_post_send: %s\n", strerror(ret));
		return -ret;
	}
	ret = wait_completion(rc, start_ns);
	*out_ns = clock_ns() - start_ns;
	return ret;
}

/* Splitmix64: the same seed, the same pauses. */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Uniform between nothing and twice the gap, which is the mean. */
static void pause_at_random(const struct options *opt, uint64_t *state)
{
	struct timespec time;
	uint64_t ns;

	if (!opt->gap_us)
		return;
	ns = random_next(state) % (2000ull * opt->gap_us);
	time.tv_sec = (time_t)(ns / NS_PER_S);
	time.tv_nsec = (long)(ns % NS_PER_S);
	nanosleep(&time, NULL);
}

static int keep(struct samples *all, uint64_t ns)
{
	if (all->count == all->room) {
		size_t room = all->room ? 2 * all->room : 4096;
		uint64_t *grown = realloc(all->ns, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		all->ns = grown;
		all->room = room;
	}
	all->ns[all->count++] = ns;
	return 0;
}

static bool passed(double seconds, uint64_t since_ns)
{
	return (double)(clock_ns() - since_ns) >= seconds * NS_PER_S;
}

static bool enough(const struct options *opt, size_t count, uint64_t started_ns)
{
	if (opt->seconds > 0)
		return passed(opt->seconds, started_ns);
	return count >= opt->samples;
}

static int measure(struct t_rc *rc, const struct t_rc_address *peer, const struct options *opt,
		   struct samples *all)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rc->buffer,
		.length = (uint32_t)opt->message_bytes,
		.lkey = rc->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr.rdma = { .remote_addr = peer->remote_addr, .rkey = peer->rkey },
	};
	uint64_t started_ns = clock_ns(), ns, state = opt->seed;
	int ret = 0;

	while (!ret && !passed(opt->warmup_seconds, started_ns)) {
		pause_at_random(opt, &state);
		ret = measure_one(rc, &wr, &ns);
	}
	started_ns = clock_ns();
	while (!ret && !enough(opt, all->count, started_ns)) {
		pause_at_random(opt, &state);
		ret = measure_one(rc, &wr, &ns);
		if (!ret)
			ret = keep(all, ns);
	}
	return ret;
}

/* ---- reporting ------------------------------------------------------------ */

static int write_raw(const struct options *opt, const struct samples *all)
{
	FILE *file = fopen(opt->raw_path, "w");

	if (!file) {
		fprintf(stderr, "cannot write '%s': %s\n", opt->raw_path, strerror(errno));
		return -errno;
	}
	fprintf(file, "# post to completion, ns of real time (slowdown %lu not applied)\n",
		opt->slowdown);
	for (size_t i = 0; i < all->count; i++)
		fprintf(file, "%llu\n", (unsigned long long)all->ns[i]);
	return fclose(file) ? -EIO : 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Nearest rank: the smallest sample that @fraction of all do not exceed. */
static double quantile_us(const struct samples *sorted, double fraction, unsigned long slowdown)
{
	size_t rank = (size_t)(fraction * (double)sorted->count + 0.999999);

	rank = rank ? rank - 1 : 0;
	if (rank >= sorted->count)
		rank = sorted->count - 1;
	return (double)sorted->ns[rank] / 1000 / (double)slowdown;
}

static int report(const struct options *opt, struct samples *all)
{
	static const struct {
		const char *name;
		double fraction;
	} lines[] = { { "min", 0 },	   { "p50", 0.5 },	{ "p90", 0.9 }, { "p99", 0.99 },
		      { "p999", 0.999 }, { "max", 1 } };

	if (!all->count) {
		fprintf(stderr, "no samples: the time was too short\n");
		return -ENODATA;
	}
	qsort(all->ns, all->count, sizeof(*all->ns), by_value);
	printf(opt->json ? "{\"message_bytes\":%lu,\"samples\":%zu,\"slowdown\":%lu,"
			   "\"gap_us\":%lu,\"seed\":%lu" :
			   "%lu-byte WRITE, one outstanding, post to completion: %zu samples, "
			   "times scaled back by the slowdown %lu; mean gap %lu us of real time, "
			   "seed %lu\n",
	       opt->message_bytes, all->count, opt->slowdown, opt->gap_us, opt->seed);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		printf(opt->json ? ",\"%s_us\":%.3f" : "%5s %10.3f us\n", lines[i].name,
		       quantile_us(all, lines[i].fraction, opt->slowdown));
	printf(opt->json ? "}\n" : "");
	return 0;
}

/* ---- the two roles ------------------------------------------------------- */

static int run_client(struct t_rc *rc, const struct t_rc_address *peer, int fd,
		      const struct options *opt)
{
	struct samples all = { 0 };
	int ret = measure(rc, peer, opt, &all);

	if (!ret && opt->raw_path)
		ret = write_raw(opt, &all);
	if (!ret)
		ret = report(opt, &all);
	if (!ret)
		ret = t_meet_barrier(fd, "at the end");
	free(all.ns);
	return ret;
}

static int run(const struct options *opt)
{
	struct t_rc_options rc_options = {
		.device = opt->device,
		.buffer_bytes = opt->message_bytes,
		.max_send_wr = 16,
		.max_inline_bytes = (uint32_t)opt->message_bytes,
		.gid_index = opt->gid_index,
	};
	struct t_rc_address peer;
	struct t_rc rc;
	int ret = t_rc_open(&rc, &rc_options);
	int fd = -1;

	if (!ret) {
		fd = t_meet(opt->host, (uint16_t)opt->tcp_port);
		ret = fd < 0 ? fd : t_meet_exchange(fd, &rc.self, &peer, sizeof(peer));
	}
	if (!ret)
		ret = t_rc_connect(&rc, &peer);
	if (!ret)
		ret = t_meet_barrier(fd, "after connecting");
	if (!ret)
		ret = opt->host ? run_client(&rc, &peer, fd, opt) : t_meet_barrier(fd, "while measuring");
	if (fd >= 0)
		close(fd);
	t_rc_close(&rc);
	return ret;
}

/* ---- the command line ---------------------------------------------------- */

static const char usage_text[] =
	"usage: latency [options]        the side that is written to\n"
	"       latency [options] HOST   the side that measures\n"
	"  -d, --ib-dev NAME      device; default the first\n"
	"  -p, --port PORT        TCP port for the set-up; default 18600\n"
	"  -s, --size BYTES       1 to 64, inline; default 16\n"
	"  -n, --samples N        how many; default 2000\n"
	"  -T, --seconds S        for so long instead\n"
	"  -w, --warm-up S        drop the samples of the first S seconds; default 0.3\n"
	"  -g, --gap US           pause at random before each, US on average; default 0\n"
	"      --seed N           of the pauses; default 1\n"
	"  -x, --gid-index N      use this GID; default LIDs, on Ethernet GID 0\n"
	"      --slowdown N       divide the printed times by N; default 1\n"
	"      --raw FILE         also write every sample, in ns, not divided\n"
	"      --json             print one JSON object\n";

static void usage_error(const char *name, const char *value, const char *accepted)
{
	fprintf(stderr, "latency: %s '%s' is not accepted: %s\n", name, value, accepted);
	exit(2);
}

static unsigned long number(const char *name, const char *text, unsigned long min,
			    unsigned long max)
{
	char *end, accepted[64];
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < min || value > max) {
		snprintf(accepted, sizeof(accepted), "a whole number from %lu to %lu", min, max);
		usage_error(name, text, accepted);
	}
	return value;
}

static double duration(const char *name, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0 && seconds <= 3600))
		usage_error(name, text, "seconds, more than 0, at most 3600");
	return seconds;
}

enum { OPT_SLOWDOWN = 256, OPT_RAW, OPT_SEED, OPT_JSON };

static void set_option(struct options *opt, int which)
{
	switch (which) {
	case 'd': opt->device = optarg; break;
	case 'p': opt->tcp_port = number("--port", optarg, 1, 65535); break;
	case 's': opt->message_bytes = number("--size", optarg, 1, 64); break;
	case 'n': opt->samples = number("--samples", optarg, 1, SAMPLES_MAX); break;
	case 'T': opt->seconds = duration("--seconds", optarg); break;
	case 'w': opt->warmup_seconds = duration("--warm-up", optarg); break;
	case 'x': opt->gid_index = (int)number("--gid-index", optarg, 0, 255); break;
	case 'g': opt->gap_us = number("--gap", optarg, 0, 1000000); break;
	case OPT_SEED: opt->seed = number("--seed", optarg, 0, UINT32_MAX); break;
	case OPT_SLOWDOWN: opt->slowdown = number("--slowdown", optarg, 1, 1000000); break;
	case OPT_RAW: opt->raw_path = optarg; break;
	case OPT_JSON: opt->json = true; break;
	case 'h': fputs(usage_text, stdout); exit(0);
	default: fputs(usage_text, stderr); exit(2);
	}
}

static void parse(struct options *opt, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "ib-dev", 1, NULL, 'd' },	{ "port", 1, NULL, 'p' },
		{ "size", 1, NULL, 's' },	{ "samples", 1, NULL, 'n' },
		{ "seconds", 1, NULL, 'T' },	{ "warm-up", 1, NULL, 'w' },
		{ "gid-index", 1, NULL, 'x' },	{ "slowdown", 1, NULL, OPT_SLOWDOWN },
		{ "raw", 1, NULL, OPT_RAW },	{ "json", 0, NULL, OPT_JSON },
		{ "gap", 1, NULL, 'g' },	{ "seed", 1, NULL, OPT_SEED },
		{ "help", 0, NULL, 'h' },	{ NULL, 0, NULL, 0 },
	};
	int which;

	while ((which = getopt_long(argc, argv, "d:p:s:n:T:w:g:x:h", longs, NULL)) != -1)
		set_option(opt, which);
	if (argc - optind > 1)
		usage_error("argument", argv[optind + 1], "at most one host");
	if (optind < argc)
		opt->host = argv[optind];
}

int main(int argc, char **argv)
{
	struct options opt = {
		.tcp_port = 18600,
		.message_bytes = 16,
		.samples = 2000,
		.warmup_seconds = 0.3,
		.slowdown = 1,
		.seed = 1,
		.gid_index = -1,
	};

	parse(&opt, argc, argv);
	return run(&opt) ? 1 : 0;
}
