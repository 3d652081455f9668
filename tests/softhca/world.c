// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Life of a world.  The card process holds a lock on card.pid for as long as it lives, so a
 * stale file, or a process that got the same number later, is never taken for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "card.h"
#include "sysfs.h"
#include "world.h"

enum {
	READY_TIMEOUT_MS = 20000,
	STOP_TIMEOUT_MS = 5000,
	STOP_STEP_MS = 10,
	LOCK_FD = 3,		/* where the card process keeps them */
	READY_FD = 4,
};

__attribute__((format(printf, 4, 5)))
static int fail(int rc, char *err, size_t err_size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(err, err_size, format, args);
	va_end(args);
	return rc;
}

/* ---- who is there ---- */

static int open_in(const char *world, const char *name, int flags)
{
	char path[HCA_PATH_LEN];
	int fd;

	if (hca_world_path(world, name, path, sizeof(path)))
		return -ENAMETOOLONG;
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

pid_t hca_world_card(const char *world)
{
	int fd = open_in(world, "card.pid", O_RDONLY);
	char text[32] = "";
	long pid = 0;

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
	/* Nobody holds the lock: whatever the file says is of the past. */
	if (flock(fd, LOCK_SH | LOCK_NB) && read(fd, text, sizeof(text) - 1) > 0)
		pid = strtol(text, NULL, 10);
	close(fd);
	return pid > 0 ? (pid_t)pid : 0;
}

/* ---- files ---- */

static int make_dir(const char *world, char *err, size_t err_size)
{
	struct stat st;

	if (mkdir(world, 0700) && errno != EEXIST)
		return fail(-errno, err, err_size, "%s: %s", world, strerror(errno));
	if (lstat(world, &st))
		return fail(-errno, err, err_size, "%s: %s", world, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fail(-ENOTDIR, err, err_size, "%s is in the way: not a directory", world);
	if (st.st_uid != geteuid())
		return fail(-EPERM, err, err_size, "%s belongs to user %u, not to user %u",
			    world, (unsigned int)st.st_uid, (unsigned int)geteuid());
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) && errno != ENOENT ? -1 : 0;
}

static void remove_hosts(const char *world)
{
	char path[HCA_PATH_LEN];

	if (!hca_world_path(world, "hosts", path, sizeof(path)))
		nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Only what up makes: a world put by mistake into a directory of other things spares them. */
static void remove_files(const char *world)
{
	static const char *const name[] = { "fabric", "card.log", "card.pid", "config" };
	char path[HCA_PATH_LEN];

	remove_hosts(world);
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		if (!hca_world_path(world, name[i], path, sizeof(path)))
			unlink(path);
}

static int make_files(const struct hca_config *c, const char *world, char *err,
		      size_t err_size)
{
	remove_hosts(world);	/* of a world whose card process was killed */
	for (uint32_t i = 0; i < c->hosts; i++) {
		int rc = hca_sysfs_make(c, world, i);

		if (rc)
			return fail(rc, err, err_size, "%s/hosts/%s: %s", world, c->host[i],
				    strerror(-rc));
	}
	return hca_config_store(c, world, err, err_size);
}

/* ---- the card process ---- */

/* Its standard streams, its lock and the pipe; nothing else of who started it. */
static void keep_only(int lock_fd, int ready_fd, int log_fd)
{
	int null_fd = open("/dev/null", O_RDONLY);
	/* Out of the way of the numbers they are to get. */
	int lock = fcntl(lock_fd, F_DUPFD, 16), ready = fcntl(ready_fd, F_DUPFD, 16);
	int log = fcntl(log_fd, F_DUPFD, 16);

	dup2(null_fd, STDIN_FILENO);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	dup2(lock, LOCK_FD);
	dup2(ready, READY_FD);
	close_range(READY_FD + 1, ~0u, 0);
}

__attribute__((noreturn))
static void be_the_card(const struct hca_config *c, const char *world, int lock_fd,
			int ready_fd, int log_fd)
{
	int rc;

	setsid();
	keep_only(lock_fd, ready_fd, log_fd);
	if (chdir("/") || ftruncate(LOCK_FD, 0) || dprintf(LOCK_FD, "%d\n", getpid()) < 0)
		fprintf(stderr, "softhca: card.pid: %s\n", strerror(errno));
	rc = hca_card_main(world, c, READY_FD);
	if (rc)
		fprintf(stderr, "softhca: card: %s\n", strerror(-rc));
	_exit(rc ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* 0 once the card wrote its byte. */
static int wait_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;
	int n;

	do
		n = poll(&p, 1, READY_TIMEOUT_MS);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n ? -errno : -ETIMEDOUT;
	return read(fd, &byte, 1) == 1 ? 0 : -ECHILD;
}

static void read_log(const char *world, char *out, size_t out_size)
{
	int fd = open_in(world, "card.log", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, out, out_size - 1);

	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
}

static int start_card(const struct hca_config *c, const char *world, int lock_fd, char *err,
		      size_t err_size)
{
	int ready[2], log_fd, rc;
	char log[256];
	pid_t pid;

	log_fd = open_in(world, "card.log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND);
	if (log_fd < 0)
		return fail(log_fd, err, err_size, "%s/card.log: %s", world, strerror(-log_fd));
	if (pipe2(ready, O_CLOEXEC)) {
		rc = fail(-errno, err, err_size, "pipe: %s", strerror(errno));
		close(log_fd);
		return rc;
	}
	fflush(NULL);
	pid = fork();
	if (!pid)
		be_the_card(c, world, lock_fd, ready[1], log_fd);
	rc = pid < 0 ? -errno : 0;
	close(log_fd);
	close(ready[1]);
	if (!rc)
		rc = wait_ready(ready[0]);
	close(ready[0]);
	if (!rc)
		return 0;
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	read_log(world, log, sizeof(log));
	return fail(rc, err, err_size, "the card process did not start: %s",
		    *log ? log : strerror(-rc));
}

/* ---- up and down ---- */

/* The lock is taken before anything else changes, so of two launchers one wins. */
static int lock_world(const char *world, char *err, size_t err_size)
{
	int fd = open_in(world, "card.pid", O_RDWR | O_CREAT);

	if (fd < 0)
		return fail(fd, err, err_size, "%s/card.pid: %s", world, strerror(-fd));
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	close(fd);
	return fail(-EBUSY, err, err_size, "%s is up already (card process %d); "
		    "'softhca down' ends it", world, (int)hca_world_card(world));
}

static int make_absolute(char world[HCA_PATH_LEN], char *err, size_t err_size)
{
	char *real = realpath(world, NULL);
	int rc = 0;

	if (!real || strlen(real) >= HCA_PATH_LEN - 512)
		rc = fail(-ENAMETOOLONG, err, err_size, "%.80s: %s", world,
			  real ? "path too long" : strerror(errno));
	else
		strcpy(world, real);
	free(real);
	return rc;
}

int hca_world_up(const struct hca_config *c, char world[HCA_PATH_LEN], char *err,
		 size_t err_size)
{
	int lock_fd, rc;

	rc = make_dir(world, err, err_size);
	if (!rc)
		rc = make_absolute(world, err, err_size);
	if (rc)
		return rc;
	lock_fd = lock_world(world, err, err_size);
	if (lock_fd < 0)
		return lock_fd;
	rc = make_files(c, world, err, err_size);
	if (!rc)
		rc = start_card(c, world, lock_fd, err, err_size);
	if (rc)
		remove_files(world);
	close(lock_fd);
	return rc;
}

static void stop_card(pid_t pid, const char *world)
{
	kill(pid, SIGTERM);
	for (int ms = 0; hca_world_card(world) == pid; ms += STOP_STEP_MS) {
		if (ms == STOP_TIMEOUT_MS)
			kill(pid, SIGKILL);
		poll(NULL, 0, STOP_STEP_MS);
		if (ms >= 2 * STOP_TIMEOUT_MS)
			return;
	}
}

int hca_world_down(const char *world, char *err, size_t err_size)
{
	char path[HCA_PATH_LEN];
	pid_t pid = hca_world_card(world);

	if (pid < 0)
		return fail(pid, err, err_size, "%s: %s", world, strerror(-pid));
	if (hca_world_path(world, "card.pid", path, sizeof(path)) || access(path, F_OK))
		return fail(-ENOENT, err, err_size, "no world in %s", world);
	if (pid)
		stop_card(pid, world);
	if (hca_world_card(world))
		return fail(-EBUSY, err, err_size, "card process %d does not end", (int)pid);
	remove_files(world);
	rmdir(world);
	return 0;
}
