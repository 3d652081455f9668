// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* peer.c - credentials from the socket, names from /proc. */
#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int jstd_peer_identify(struct jstd_peer *peer, int fd)
{
	struct ucred cred;
	socklen_t length = sizeof(cred);

	memset(peer, 0, sizeof(*peer));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length))
		return -errno;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	return 0;
}

static void read_command(struct jstd_peer *peer)
{
	char path[64];
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)peer->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, peer->command, sizeof(peer->command) - 1);
		close(fd);
	}
	peer->command[got > 0 ? got : 0] = '\0';
	peer->command[strcspn(peer->command, "\n")] = '\0';
}

static void read_executable(struct jstd_peer *peer)
{
	static const char gone[] = " (deleted)"; /* replaced by an upgrade while it runs */
	const size_t tail = sizeof(gone) - 1;
	char path[64];
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)peer->pid);
	got = readlink(path, peer->executable, sizeof(peer->executable) - 1);
	peer->executable[got > 0 ? got : 0] = '\0';
	if (got > (ssize_t)tail && !strcmp(peer->executable + got - tail, gone))
		peer->executable[got - (ssize_t)tail] = '\0';
}

void jstd_peer_describe(struct jstd_peer *peer)
{
	peer->command[0] = '\0';
	peer->executable[0] = '\0';
	if (peer->pid <= 0)
		return;
	read_command(peer);
	read_executable(peer);
}

bool jstd_peer_in_group(const struct jstd_peer *peer, int fd, gid_t gid)
{
	socklen_t bytes = 0;
	bool found = peer->gid == gid;
	gid_t *groups;

	/* Fails with ERANGE and says how much room it takes. */
	if (found || !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) || errno != ERANGE)
		return found;
	groups = malloc(bytes);
	if (groups && !getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes)) {
		for (size_t i = 0; i < bytes / sizeof(*groups) && !found; i++)
			found = groups[i] == gid;
	}
	free(groups);
	return found;
}
