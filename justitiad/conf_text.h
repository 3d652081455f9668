/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * conf_text.h - the text of a configuration file, made fit for libconfuse.
 *
 * Two things stand between libconfuse 3.3 and a daemon that reloads: its
 * scanner ends the process when a read fails, as it does for a directory, and
 * it counts three lines for a line with a comment, so that its messages point
 * elsewhere. So the file is read here, and comments become blanks.
 */
#ifndef JSTD_CONF_TEXT_H
#define JSTD_CONF_TEXT_H

#include <stddef.h>

#define JSTD_CONF_BYTES_MAX (1u << 20)

/* Blanks out #, // and C comments outside quotes; line ends stay. */
void jstd_conf_text_blank(char *text, size_t bytes);

/*
 * The file at @path without its comments, to be freed. 0, -EFBIG if it is no
 * regular file or larger than JSTD_CONF_BYTES_MAX, or another negative errno.
 */
int jstd_conf_text_read(const char *path, char **text, size_t *bytes);

#endif
