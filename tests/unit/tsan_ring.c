// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * tsan_ring.c - daemon and client as two threads over one region.
 *
 * Built with ThreadSanitizer. Order is kept, no token is lost or doubled, and
 * the handshakes of abi.h (client_waits and daemon_waits) lose no wake-up: the
 * two nudge each other through pipes and sleep without a timer in between, so
 * a lost one is a hang, which alarm() turns into a failure.
 *
 * Environment: SEED, and TOKENS (how many go through the ring).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define TOKENS_DEFAULT 3000000ull
#define HANG_S 120u

static struct jst_abi_region region;
static uint64_t tokens_total;
static int wake_client[2], wake_daemon[2];
static uint64_t client_slept, daemon_slept;

static void fail(const char *what, uint64_t want, uint64_t got)
{
	fprintf(stderr, "tsan_ring: %s: wanted %llu, got %llu\n", what, (unsigned long long)want,
		(unsigned long long)got);
	_exit(1);
}

static void on_alarm(int signal)
{
	static const char text[] = "tsan_ring: hung: a wake-up was lost\n";

	(void)signal;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* As MSG_DONTWAIT on the socket: when the pipe is full, the other side has enough to read. */
static void nudge(const int *pipe_fds)
{
	if (write(pipe_fds[1], "", 1) < 0 && errno != EAGAIN)
		fail("write", 1, 0);
}

static void sleep_on(const int *pipe_fds)
{
	char bytes[64];

	if (read(pipe_fds[0], bytes, sizeof(bytes)) <= 0)
		fail("read", 1, 0);
}

/* The whole of daemon_waits: say it, look once more, sleep. */
static void daemon_sleep(struct jst_ring_producer *ring)
{
	atomic_store_explicit(&region.daemon.daemon_waits, 1, memory_order_seq_cst);
	if (!jst_ring_wanted(ring)) {
		daemon_slept++;
		sleep_on(wake_daemon);
	}
	atomic_store_explicit(&region.daemon.daemon_waits, 0, memory_order_seq_cst);
}

static void *daemon_thread(void *arg)
{
	struct jst_ring_producer ring = {&region, *(uint32_t *)arg};
	uint64_t pushed = 0;

	while (pushed < tokens_total) {
		uint32_t wanted = jst_ring_wanted(&ring);

		if (!wanted) {
			daemon_sleep(&ring);
			continue;
		}
		for (; wanted; wanted--, pushed++) {
			struct jst_token token = {pushed, (uint32_t)pushed, ~(uint32_t)pushed};

			if (!jst_ring_push(&ring, &token))
				fail("room for a wanted token", 1, 0);
		}
		if (jst_ring_must_wake(&ring))
			nudge(wake_client);
	}
	return NULL;
}

/*
 * Asks for a random number of tokens, as a shaper with that much queued would;
 * never for more than a ring: the daemon sleeps when the ring is full, and only
 * a new wish wakes it.
 */
static void ask(const struct jst_ring_consumer *ring, uint64_t taken, uint64_t *state)
{
	uint64_t more = next_random(state) % (next_random(state) & 1 ? 4 : JST_RING_TOKENS) + 1;

	if (more > tokens_total - taken)
		more = tokens_total - taken;
	atomic_store_explicit(&region.client.wanted, ring->tail + (uint32_t)more,
			      memory_order_seq_cst);
	if (atomic_load_explicit(&region.daemon.daemon_waits, memory_order_seq_cst))
		nudge(wake_daemon);
}

/* Has everything that was asked for been taken? */
static bool is_served(const struct jst_ring_consumer *ring)
{
	return atomic_load_explicit(&region.client.wanted, memory_order_relaxed) == ring->tail;
}

static void client_sleep(struct jst_ring_consumer *ring)
{
	if (!jst_ring_wait(ring, true)) {
		client_slept++;
		sleep_on(wake_client);
	}
	jst_ring_wait(ring, false);
}

static void client(uint32_t start, uint64_t seed)
{
	struct jst_ring_consumer ring = {&region, start};
	uint64_t taken = 0, state = seed;

	while (taken < tokens_total) {
		struct jst_token token;

		if (is_served(&ring))
			ask(&ring, taken, &state);
		if (!jst_ring_peek(&ring, &token)) {
			client_sleep(&ring);
			continue;
		}
		if (token.due_ns != taken)
			fail("the next token in order", taken, token.due_ns);
		if (token.bytes != (uint32_t)taken || token.ops != ~(uint32_t)taken)
			fail("the token whole", (uint32_t)taken, token.bytes);
		jst_ring_drop(&ring);
		taken++;
	}
}

static uint64_t number_from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void open_pipe(int *fds)
{
	if (pipe(fds) || fcntl(fds[1], F_SETFL, O_NONBLOCK))
		fail("a pipe", 0, (uint64_t)errno);
}

int main(void)
{
	uint64_t seed = number_from_env("SEED", (uint64_t)time(NULL)) | 1;
	/* shortly before the wrap at 2^32, so that it is crossed */
	uint32_t start = 0u - (uint32_t)(seed % 100000);
	pthread_t thread;

	tokens_total = number_from_env("TOKENS", TOKENS_DEFAULT);
	printf("tsan_ring: SEED=%llu TOKENS=%llu\n", (unsigned long long)seed,
	       (unsigned long long)tokens_total);
	fflush(stdout);
	signal(SIGALRM, on_alarm);
	alarm(HANG_S);
	open_pipe(wake_client);
	open_pipe(wake_daemon);
	atomic_store(&region.daemon.head, start);
	atomic_store(&region.client.tail, start);
	atomic_store(&region.client.wanted, start);
	if (pthread_create(&thread, NULL, daemon_thread, &start))
		fail("a thread", 0, 1);
	client(start, seed);
	pthread_join(thread, NULL);
	printf("tsan_ring: ok, the client slept %llu times, the daemon %llu times\n",
	       (unsigned long long)client_slept, (unsigned long long)daemon_slept);
	/* without sleeping, the handshake was not tried */
	return client_slept && daemon_slept ? 0 : 1;
}
