// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* ctl_ask.c - JST_STATUS to the daemon, and its answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi.h"
#include "ctl.h"

#define PATIENCE_S 5
#define PIECE_BYTES 65536u

static int complain(const char *socket_path, const char *what)
{
	fprintf(stderr, "justitiactl: %s: %s\n", socket_path, what);
	return -1;
}

static int daemon_connect(const char *socket_path)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int saved, fd;

	if (strlen(socket_path) >= sizeof(address.sun_path))
		return complain(socket_path, "too long for the path of a socket");
	strcpy(address.sun_path, socket_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return complain(socket_path, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	saved = errno;
	close(fd);
	if (saved == ENOENT || saved == ECONNREFUSED)
		return complain(socket_path, "no justitiad listens there");
	return complain(socket_path, strerror(saved));
}

/* A refusal comes as JST_WELCOME with an error; a document starts with a brace. */
static bool is_refusal(const char *piece, ssize_t bytes, int *error)
{
	struct jst_msg_welcome welcome;

	if (bytes != sizeof(welcome))
		return false;
	memcpy(&welcome, piece, sizeof(welcome));
	*error = -welcome.error;
	return welcome.header.magic == JST_ABI_MAGIC;
}

/* Everything up to the end of the connection, as one text; NULL after an error. */
static char *answer_read(int fd, const char *socket_path)
{
	size_t used = 0;
	char *text = NULL;
	ssize_t got = 1;
	int error;

	while (got > 0) {
		char *more = realloc(text, used + PIECE_BYTES + 1);

		if (!more)
			break;
		text = more;
		got = recv(fd, text + used, PIECE_BYTES, 0);
		if (got > 0 && is_refusal(text + used, got, &error)) {
			complain(socket_path, strerror(error));
			free(text);
			return NULL;
		}
		if (got > 0)
			used += (size_t)got;
		text[used] = '\0';
	}
	if (got != 0) {
		complain(socket_path, strerror(errno));
		free(text);
		return NULL;
	}
	return text;
}

static bool has_array(struct json_object *object, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(object, key, &value) &&
	       json_object_is_type(value, json_type_array);
}

static struct json_object *answer_parse(const char *text, const char *socket_path)
{
	struct json_object *status = json_tokener_parse(text);
	struct json_object *error;

	if (!status) {
		complain(socket_path, "the answer is not JSON, or was cut off");
		return NULL;
	}
	if (json_object_object_get_ex(status, "error", &error)) {
		complain(socket_path, json_object_get_string(error));
		json_object_put(status);
		return NULL;
	}
	if (!has_array(status, "devices") || !has_array(status, "clients")) {
		complain(socket_path, "the answer is not a status document");
		json_object_put(status);
		return NULL;
	}
	return status;
}

struct json_object *jstd_ctl_status_get(const char *socket_path)
{
	const struct jst_msg_header ask = { JST_ABI_MAGIC, JST_ABI_VERSION, JST_STATUS };
	struct json_object *status = NULL;
	int fd = daemon_connect(socket_path);
	char *text;

	if (fd < 0)
		return NULL;
	if (send(fd, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask)) {
		complain(socket_path, strerror(errno));
	} else {
		text = answer_read(fd, socket_path);
		if (text)
			status = answer_parse(text, socket_path);
		free(text);
	}
	close(fd);
	return status;
}
