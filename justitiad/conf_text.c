// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* conf_text.c - reading a configuration file, and blanking its comments. */
#include "conf_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the comment or quoted text that starts at @at ends. */
static size_t end_of_line(const char *text, size_t bytes, size_t at)
{
	while (at < bytes && text[at] != '\n')
		at++;
	return at;
}

static size_t end_of_block(const char *text, size_t bytes, size_t at)
{
	for (at += 3; at < bytes; at++) {
		if (text[at] == '/' && text[at - 1] == '*')
			return at + 1;
	}
	return bytes;
}

static size_t end_of_quote(const char *text, size_t bytes, size_t at)
{
	char quote = text[at];

	for (at++; at < bytes && text[at] != quote; at++) {
		if (text[at] == '\\')
			at++;
	}
	return at < bytes ? at + 1 : bytes;
}

static bool starts(const char *text, size_t bytes, size_t at, const char *what)
{
	return bytes - at >= 2 && !memcmp(text + at, what, 2);
}

static void blank(char *text, size_t from, size_t to)
{
	for (; from < to; from++) {
		if (text[from] != '\n')
			text[from] = ' ';
	}
}

void jstd_conf_text_blank(char *text, size_t bytes)
{
	size_t end;

	for (size_t at = 0; at < bytes; at = end) {
		if (text[at] == '"' || text[at] == '\'') {
			end = end_of_quote(text, bytes, at);
		} else if (text[at] == '#' || starts(text, bytes, at, "//")) {
			end = end_of_line(text, bytes, at);
			blank(text, at, end);
		} else if (starts(text, bytes, at, "/*")) {
			end = end_of_block(text, bytes, at);
			blank(text, at, end);
		} else {
			end = at + 1;
		}
	}
}

static int read_fd(int fd, char **text, size_t *bytes)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > JSTD_CONF_BYTES_MAX)
		return -EFBIG;
	*text = malloc((size_t)st.st_size + 1);
	if (!*text)
		return -ENOMEM;
	got = read(fd, *text, (size_t)st.st_size);
	if (got < 0)
		return -errno;
	*bytes = (size_t)got;
	return 0;
}

int jstd_conf_text_read(const char *path, char **text, size_t *bytes)
{
	int ret, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	*text = NULL;
	*bytes = 0;
	ret = read_fd(fd, text, bytes);
	close(fd);
	if (ret) {
		free(*text);
		*text = NULL;
		return ret;
	}
	jstd_conf_text_blank(*text, *bytes);
	return 0;
}
