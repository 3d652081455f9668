// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* meet.c - the TCP connection that sets up a measurement. */
#include "meet.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_once(uint16_t port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int yes = 1;
	int fd = -1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) || listen(listener, 1))
		fprintf(stderr, "cannot listen on 127.0.0.1:%u: %s\n", port,
			strerror(errno));
	else
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	return fd;
}

static int connect_to(const char *host, uint16_t port)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char service[16];
	int ret, fd;

	snprintf(service, sizeof(service), "%u", port);
	ret = getaddrinfo(host, service, &hints, &found);
	if (ret) {
		fprintf(stderr, "cannot resolve '%s': %s\n", host, gai_strerror(ret));
		return -1;
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, found->ai_addr, found->ai_addrlen)) {
		fprintf(stderr, "cannot connect to %s:%s: %s\n", host, service,
			strerror(errno));
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

int t_meet(const char *host, uint16_t port)
{
	int fd = host ? connect_to(host, port) : listen_once(port);

	return fd < 0 ? -ENOTCONN : fd;
}

int t_meet_exchange(int fd, const void *self, void *peer, size_t bytes)
{
	if (send(fd, self, bytes, MSG_NOSIGNAL) == (ssize_t)bytes &&
	    recv(fd, peer, bytes, MSG_WAITALL) == (ssize_t)bytes)
		return 0;
	fprintf(stderr, "the peer hung up during set-up\n");
	return -ECONNRESET;
}

int t_meet_barrier(int fd, const char *step)
{
	char byte = 'b';

	if (send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, MSG_WAITALL) == 1)
		return 0;
	fprintf(stderr, "the peer hung up (%s)\n", step);
	return -ECONNRESET;
}
