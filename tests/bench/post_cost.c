// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * post_cost.c - posts messages for an instruction counter.
 *
 *   post_cost [options]
 *
 * Two queue pairs of one process on one card. First some messages are posted and
 * completed as usual, by warm_up(): whatever happens once has happened then. The
 * messages that count are posted by post_legacy() or post_extended(), so that
 *
 *   valgrind --tool=callgrind --toggle-collect=post_legacy post_cost
 *
 * counts what posting costs in the driver, and nothing else.
 *
 * counts what posting costs in the driver, and nothing else: polling lies outside,
 * and so does the emulated card, which learns of a doorbell by a signal (callgrind
 * collects signal handlers apart). For the signal's sake callgrind must keep all
 * registers exact: --px-default and --px-file-backed=allregs-at-mem-access.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/demo/rc.h"

#define NS_PER_S 1000000000ull
#define COMPLETION_TIMEOUT_NS (60 * NS_PER_S)
#define MESSAGES_MAX 100000ul
#define WARMUP_MESSAGES 64

struct options {
	unsigned long messages;
	unsigned long message_bytes;
	bool extended;
	bool is_inline;
};

struct target {
	struct t_rc *rc;
	struct ibv_sge sge;
	uint64_t remote_addr;
	uint32_t rkey;
	unsigned int flags;
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline __attribute__((always_inline)) int legacy(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

static inline __attribute__((always_inline)) int extended(struct ibv_qp_ex *qp,
							   const struct target *to)
{
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, to->rkey, to->remote_addr);
	if (to->flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)to->sge.addr, to->sge.length);
	else
		ibv_wr_set_sge(qp, to->sge.lkey, to->sge.addr, to->sge.length);
	return ibv_wr_complete(qp);
}

/* Named on the command line of the instruction counter: must stay functions. */
__attribute__((noinline, noclone)) int post_legacy(struct ibv_qp *qp, struct ibv_send_wr *wr);
__attribute__((noinline, noclone)) int post_extended(struct ibv_qp_ex *qp,
						     const struct target *to);

int post_legacy(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	return legacy(qp, wr);
}

int post_extended(struct ibv_qp_ex *qp, const struct target *to)
{
	return extended(qp, to);
}

static struct ibv_send_wr request(struct target *to)
{
	return (struct ibv_send_wr){
		.wr_id = 1,
		.sg_list = &to->sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = to->flags,
		.wr.rdma = { .remote_addr = to->remote_addr, .rkey = to->rkey },
	};
}

static int posted(int ret)
{
	if (ret)
		fprintf(stderr, "post: %s\n", strerror(ret));
	return -ret;
}

static int wait_completion(struct t_rc *rc)
{
	uint64_t start_ns = clock_ns();
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(rc->cq, 1, &wc))) {
		if (clock_ns() - start_ns < COMPLETION_TIMEOUT_NS)
			continue;
		fprintf(stderr, "no completion within %llu s\n",
			COMPLETION_TIMEOUT_NS / NS_PER_S);
		return -ETIMEDOUT;
	}
	if (n < 0 || wc.status != IBV_WC_SUCCESS || wc.wr_id != 1) {
		fprintf(stderr, "completion: %s\n",
			n < 0 ? "ibv_poll_cq failed" : ibv_wc_status_str(wc.status));
		return -EIO;
	}
	return 0;
}

static int warm_up(struct target *to, const struct options *opt)
{
	struct ibv_send_wr wr = request(to);
	int ret = 0;

	for (int i = 0; !ret && i < WARMUP_MESSAGES; i++) {
		ret = posted(opt->extended ? extended(to->rc->qp_ex, to) : legacy(to->rc->qp, &wr));
		if (!ret)
			ret = wait_completion(to->rc);
	}
	return ret;
}

static int post_counted(struct target *to, const struct options *opt)
{
	struct ibv_send_wr wr = request(to);
	int ret = 0;

	for (unsigned long i = 0; !ret && i < opt->messages; i++) {
		ret = posted(opt->extended ? post_extended(to->rc->qp_ex, to) :
					     post_legacy(to->rc->qp, &wr));
		if (!ret)
			ret = wait_completion(to->rc);
	}
	return ret;
}

static int run(struct t_rc *from, struct t_rc *to, const struct options *opt)
{
	struct target target = {
		.rc = from,
		.sge = { .addr = (uintptr_t)from->buffer,
			 .length = (uint32_t)opt->message_bytes,
			 .lkey = from->mr->lkey },
		.remote_addr = to->self.remote_addr,
		.rkey = to->self.rkey,
		.flags = IBV_SEND_SIGNALED | (opt->is_inline ? IBV_SEND_INLINE : 0),
	};
	int ret = t_rc_connect(from, &to->self);

	if (!ret)
		ret = t_rc_connect(to, &from->self);
	if (!ret)
		ret = warm_up(&target, opt);
	return ret ? ret : post_counted(&target, opt);
}

static const char usage_text[] =
	"usage: post_cost [options]\n"
	"  -n, --messages N   how many to post, 1 to 100000; default 1000\n"
	"  -s, --size BYTES   of each, 1 to 65536; default 64\n"
	"  -e, --extended     by ibv_wr_rdma_write(), not ibv_post_send()\n"
	"  -I, --inline       inline, at most 64 bytes\n";

static unsigned long number(const char *name, const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || !value || value > max) {
		fprintf(stderr, "post_cost: %s '%s' is not accepted: a whole number from 1 to %lu\n",
			name, text, max);
		exit(2);
	}
	return value;
}

static void parse(struct options *opt, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "messages", 1, NULL, 'n' }, { "size", 1, NULL, 's' },
		{ "extended", 0, NULL, 'e' }, { "inline", 0, NULL, 'I' },
		{ "help", 0, NULL, 'h' },     { NULL, 0, NULL, 0 },
	};
	int which;

	while ((which = getopt_long(argc, argv, "n:s:eIh", longs, NULL)) != -1) {
		switch (which) {
		case 'n': opt->messages = number("--messages", optarg, MESSAGES_MAX); break;
		case 's': opt->message_bytes = number("--size", optarg, 65536); break;
		case 'e': opt->extended = true; break;
		case 'I': opt->is_inline = true; break;
		case 'h': fputs(usage_text, stdout); exit(0);
		default: fputs(usage_text, stderr); exit(2);
		}
	}
	if (opt->is_inline && opt->message_bytes > 64) {
		fprintf(stderr, "post_cost: --size '%lu' is not accepted with --inline: 1 to 64\n",
			opt->message_bytes);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options opt = { .messages = 1000, .message_bytes = 64 };
	struct t_rc_options rc_options = { .max_send_wr = 64, .gid_index = -1 };
	struct t_rc from, to;
	int ret;

	parse(&opt, argc, argv);
	rc_options.buffer_bytes = opt.message_bytes;
	rc_options.max_inline_bytes = opt.is_inline ? 64 : 0;
	rc_options.extended = opt.extended;
	ret = t_rc_open(&from, &rc_options);
	if (!ret)
		ret = t_rc_open_beside(&to, &from, &rc_options);
	if (!ret)
		ret = run(&from, &to, &opt);
	if (!ret) {
		printf("posted %lu\n", opt.messages);
		t_rc_close(&to);
		t_rc_close(&from);
	}
	return ret ? 1 : 0;
}
