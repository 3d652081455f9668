/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * peer.h - who is at the other end of a connection, by the kernel's word.
 *
 * The user comes from the socket and is certain. The command and the executable
 * are read from /proc once, when the client attaches; a process may change both
 * later, so they serve to tell applications apart, not to keep anybody out.
 */
#ifndef JSTD_PEER_H
#define JSTD_PEER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define JSTD_COMMAND_BYTES 32

struct jstd_peer {
	pid_t pid; /* as the daemon sees it; 0: in a foreign pid namespace */
	uid_t uid;
	gid_t gid;
	char command[JSTD_COMMAND_BYTES];
	char executable[PATH_MAX]; /* empty if it cannot be read */
};

/* Fills pid, uid and gid. 0, or a negative errno. */
int jstd_peer_identify(struct jstd_peer *peer, int fd);

/* Fills command and executable as far as they can be had. */
void jstd_peer_describe(struct jstd_peer *peer);

/* Is the peer's process in @gid, by its primary or any other group? */
bool jstd_peer_in_group(const struct jstd_peer *peer, int fd, gid_t gid);

#endif
