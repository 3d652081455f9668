// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The shared segment: making and mapping it, time, locks, doorbell rings. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"

#define LOCK_SPINS 3000

struct hca_seg *hca;
pid_t hca_self;

static int fabric_path(const char *world_dir, char *out, size_t bytes)
{
	return snprintf(out, bytes, "%s/fabric", world_dir) < (int)bytes ? 0 : -ENAMETOOLONG;
}

static void init_lock(struct hca_seg *s)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->lock, &a);
	pthread_mutexattr_destroy(&a);
}

int hca_seg_create(const char *world_dir, struct hca_seg **out)
{
	char path[PATH_MAX];
	struct hca_seg *s;
	int fd, rc = fabric_path(world_dir, path, sizeof(path));

	if (rc)
		return rc;
	/* A new file: whoever still maps an old world's keeps that one. */
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(*s))) {
		rc = -errno;
		close(fd);
		return rc;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	rc = s == MAP_FAILED ? -errno : 0;
	close(fd);
	if (rc)
		return rc;
	s->magic = HCA_MAGIC;
	s->version = HCA_VERSION;
	s->bytes = sizeof(*s);
	init_lock(s);
	*out = s;
	return 0;
}

int hca_seg_map(const char *world_dir, bool writable, struct hca_seg **out)
{
	char path[PATH_MAX];
	struct hca_seg *s;
	struct stat st;
	int fd, rc = fabric_path(world_dir, path, sizeof(path));

	if (rc)
		return rc;
	fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || (size_t)st.st_size != sizeof(*s)) {
		close(fd);
		return -EPROTO;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	rc = s == MAP_FAILED ? -errno : 0;
	close(fd);
	if (rc)
		return rc;
	if (s->magic != HCA_MAGIC || s->version != HCA_VERSION || s->bytes != sizeof(*s) ||
	    !__atomic_load_n(&s->up, __ATOMIC_ACQUIRE)) {
		munmap(s, sizeof(*s));
		return -EPROTO;
	}
	*out = s;
	return 0;
}

uint64_t hca_now_ns(void)
{
	struct timespec t;

	if (vc_is_virtual())
		return vc_now_ns();
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

uint64_t hca_model_ns(uint64_t wall_ns)
{
	return wall_ns > hca->t0_ns ? (wall_ns - hca->t0_ns) / hca->slowdown : 0;
}

uint64_t hca_wall_ns(uint64_t model_ns)
{
	if (model_ns >= HCA_NEVER / 2 / hca->slowdown)
		return HCA_NEVER;
	return hca->t0_ns + model_ns * hca->slowdown;
}

/*
 * Held for a few microseconds; blocking at once would cost more than waiting. A holder
 * that was killed leaves its object as it was: the card process frees it with the rest.
 */
void hca_lock(void)
{
	int rc = EBUSY;

	for (int i = 0; i < LOCK_SPINS && rc == EBUSY; i++) {
		rc = pthread_mutex_trylock(&hca->lock);
		if (rc == EBUSY)
			__builtin_ia32_pause();
	}
	if (rc == EBUSY)
		rc = pthread_mutex_lock(&hca->lock);
	if (rc == EOWNERDEAD)
		pthread_mutex_consistent(&hca->lock);
}

void hca_unlock(void)
{
	pthread_mutex_unlock(&hca->lock);
}

/* Sleeps while *word is @seen, at most until the absolute @until_ns. */
int hca_futex_wait(uint32_t *word, uint32_t seen, uint64_t until_ns)
{
	struct timespec t = { until_ns / 1000000000ull, until_ns % 1000000000ull };

	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen,
		    until_ns == HCA_NEVER ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY))
		return -errno;
	return 0;
}

void hca_futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The card raises card_idle before it looks for work for the last time. */
void hca_card_poke(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&hca->card_idle, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&hca->bell, 1, __ATOMIC_RELEASE);
	hca_futex_wake(&hca->bell);
}

/* Threads of the application take turns by a lock of their own; false = ring full. */
bool hca_bell_push(struct hca_proc *p, const struct hca_bell *b)
{
	uint32_t head = p->bell_head;

	if (head - __atomic_load_n(&p->bell_tail, __ATOMIC_ACQUIRE) >= HCA_RING_SLOTS)
		return false;
	p->bell[head % HCA_RING_SLOTS] = *b;
	/* Release: the driver reads the slot after it saw the new head. */
	__atomic_store_n(&p->bell_head, head + 1, __ATOMIC_RELEASE);
	return true;
}

bool hca_bell_pop(struct hca_proc *p, struct hca_bell *out)
{
	uint32_t tail = p->bell_tail;

	if (__atomic_load_n(&p->bell_head, __ATOMIC_ACQUIRE) == tail)
		return false;
	*out = p->bell[tail % HCA_RING_SLOTS];
	__atomic_store_n(&p->bell_tail, tail + 1, __ATOMIC_RELEASE);
	return true;
}
