// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * test_clients.c - greetings, clients and status in process, over socket pairs.
 *
 * What needs a real listener, other users or signals is in
 * tests/system/test_daemon.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "justitiad/daemon.h"
#include "justitiad/log.h"
#include "unit.h"

static struct jstd_daemon daemon_;

static void set_up(const char *text)
{
	char path[] = "/tmp/t_clientsXXXXXX", error[512];
	int fd = mkstemp(path);
	struct jstd_conf conf;
	sd_event *event;

	/* The test is no daemon: it keeps its scheduling. */
	ck_assert_int_gt(dprintf(fd, "scheduling = \"normal\"\n%s", text), 0);
	close(fd);
	ck_assert_int_eq(jstd_conf_load(&conf, path, error, sizeof(error)), 0);
	unlink(path);
	ck_assert_int_ge(sd_event_new(&event), 0);
	jstd_daemon_init(&daemon_, event);
	jstd_daemon_reconfigure(&daemon_, &conf);
}

static void tear_down(void)
{
	sd_event *event = daemon_.event;

	jstd_daemon_close(&daemon_);
	ck_assert_uint_eq(daemon_.n_clients + daemon_.n_devices + daemon_.n_greetings, 0);
	sd_event_unref(event);
}

/* Lets the daemon do whatever there is to do now. */
static void settle(void)
{
	while (sd_event_run(daemon_.event, 0) > 0)
		;
}

static int connect_pair(void)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	jstd_greeting_begin(&daemon_, pair[1]);
	return pair[0];
}

static struct jst_msg_hello hello_of(const char *class, const char *device)
{
	struct jst_msg_hello hello = {.header = {JST_ABI_MAGIC, JST_ABI_VERSION, JST_HELLO}};

	strncpy(hello.class, class, sizeof(hello.class) - 1);
	strncpy(hello.device, device, sizeof(hello.device) - 1);
	return hello;
}

/* The error of JST_WELCOME; the region, if there is one, is mapped. */
static int welcome(int fd, struct jst_abi_region **region)
{
	struct jst_msg_welcome welcome = {0};
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {&welcome, sizeof(welcome)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
				 .msg_controllen = sizeof(control)};
	int region_fd;

	ck_assert_int_eq(recvmsg(fd, &message, MSG_CMSG_CLOEXEC), sizeof(welcome));
	ck_assert_uint_eq(welcome.header.type, JST_WELCOME);
	if (welcome.error)
		return welcome.error;
	memcpy(&region_fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	ck_assert_int_eq(fcntl(region_fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	*region = mmap(NULL, welcome.region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region_fd, 0);
	ck_assert_ptr_ne(*region, MAP_FAILED);
	close(region_fd);
	return 0;
}

static int attach(const char *class, const char *device, struct jst_abi_region **region)
{
	struct jst_msg_hello hello = hello_of(class, device);
	int fd = connect_pair();

	ck_assert_int_eq(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	settle();
	ck_assert_int_eq(welcome(fd, region), 0);
	return fd;
}

static void look(int fd)
{
	const struct jst_msg_header look = {JST_ABI_MAGIC, JST_ABI_VERSION, JST_LOOK};

	ck_assert_int_eq(send(fd, &look, sizeof(look), 0), sizeof(look));
	settle();
}

static void detach(int fd, struct jst_abi_region *region)
{
	munmap(region, sizeof(*region));
	close(fd);
	settle();
}

/* ------------------------------------------------------------------------------------- */

START_TEST(each_device_has_an_arbiter_from_its_first_client_to_its_last)
{
	struct jst_abi_region *a, *b, *c;
	int one, two, three;

	set_up("");
	one = attach("latency", "mlx5_0", &a);
	two = attach("", "mlx5_1", &b);
	three = attach("", "mlx5_1", &c);
	ck_assert_uint_eq(daemon_.n_devices, 2);
	ck_assert_uint_ne(a->id.client_id, b->id.client_id);
	atomic_store(&a->client.flows, 1);
	look(one);
	/* A latency app of one device does not concern the other. */
	ck_assert_uint_eq(atomic_load(&a->policy.chunk_bytes), 5000);
	ck_assert_uint_eq(atomic_load(&b->policy.chunk_bytes), 1000000);
	detach(one, a);
	ck_assert_uint_eq(daemon_.n_devices, 1);
	detach(two, b);
	ck_assert_uint_eq(daemon_.n_devices, 1);
	detach(three, c);
	ck_assert_uint_eq(daemon_.n_devices, 0);
	tear_down();
}
END_TEST

START_TEST(a_look_is_answered_with_tokens_and_a_wake)
{
	struct jst_abi_region *region;
	struct jst_msg_header wake;
	int fd;

	set_up("");
	fd = attach("", "mlx5_0", &region);
	atomic_store(&region->client.flows, 1);
	atomic_store(&region->client.client_waits, 1);
	atomic_store(&region->client.wanted, 2);
	look(fd);
	ck_assert_uint_eq(atomic_load(&region->daemon.head), 2);
	ck_assert_int_eq(recv(fd, &wake, sizeof(wake), 0), sizeof(wake));
	ck_assert_uint_eq(wake.type, JST_WAKE);
	ck_assert_int_eq(recv(fd, &wake, sizeof(wake), 0), -1);
	ck_assert_int_eq(errno, EAGAIN);
	detach(fd, region);
	tear_down();
}
END_TEST

START_TEST(no_greeting_of_any_length_or_content_does_harm)
{
	struct jst_abi_region *region;
	int bystander;

	set_up("");
	bystander = attach("", "mlx5_0", &region);
	for (int i = 0; i < 2000; i++) {
		struct jst_msg_hello hello = hello_of("", "mlx5_0");
		unsigned char noise[400];
		size_t n = t_between(1, sizeof(noise));
		int fd = connect_pair();

		for (size_t j = 0; j < sizeof(noise); j++)
			noise[j] = (unsigned char)t_rand();
		if (t_rand() & 1)
			memcpy(noise, &hello, t_between(0, sizeof(hello)));
		ck_assert_int_eq(send(fd, noise, n, 0), (ssize_t)n);
		if (t_rand() & 1)
			settle();
		close(fd);
		settle();
		T_CHECK(daemon_.n_greetings == 0);
		T_CHECK(daemon_.n_clients == 1);
	}
	detach(bystander, region);
	tear_down();
}
END_TEST

START_TEST(silent_connections_push_out_the_oldest)
{
	struct jst_abi_region *region;
	int fds[JSTD_GREETINGS_MAX + 10], late;

	set_up("");
	for (unsigned int i = 0; i < JSTD_GREETINGS_MAX + 10; i++)
		fds[i] = connect_pair();
	ck_assert_uint_eq(daemon_.n_greetings, JSTD_GREETINGS_MAX);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(welcome(fds[i], &region), -EBUSY);
	late = attach("", "mlx5_0", &region);
	ck_assert_uint_eq(daemon_.n_clients, 1);
	for (unsigned int i = 0; i < JSTD_GREETINGS_MAX + 10; i++)
		close(fds[i]);
	settle();
	ck_assert_uint_eq(daemon_.n_greetings, 0);
	detach(late, region);
	tear_down();
}
END_TEST

START_TEST(a_full_table_refuses_until_somebody_leaves)
{
	struct jst_msg_hello hello = hello_of("", "mlx5_0");
	struct jst_abi_region *a, *b, *c;
	int one, two, three;

	set_up("max_clients = 2\n");
	one = attach("", "mlx5_0", &a);
	two = attach("", "mlx5_0", &b);
	for (int i = 0; i < 3; i++) {
		three = connect_pair();
		ck_assert_int_eq(send(three, &hello, sizeof(hello), 0), sizeof(hello));
		settle();
		ck_assert_int_eq(welcome(three, &c), -EUSERS);
		close(three);
	}
	ck_assert_uint_eq(daemon_.refused, 3);
	detach(one, a);
	three = attach("", "mlx5_0", &c);
	detach(two, b);
	detach(three, c);
	tear_down();
}
END_TEST

START_TEST(status_is_cut_short_by_a_reader_that_leaves)
{
	const struct jst_msg_header ask = {JST_ABI_MAGIC, JST_ABI_VERSION, JST_STATUS};
	char piece[65536];
	int fd;

	set_up("");
	fd = connect_pair();
	ck_assert_int_eq(send(fd, &ask, sizeof(ask), 0), sizeof(ask));
	settle();
	ck_assert_int_gt(recv(fd, piece, sizeof(piece), 0), 0);
	ck_assert_int_eq(piece[0], '{');
	ck_assert_int_eq(recv(fd, piece, sizeof(piece), 0), 0);
	close(fd);
	fd = connect_pair();
	ck_assert_int_eq(send(fd, &ask, sizeof(ask), 0), sizeof(ask));
	close(fd);
	settle();
	ck_assert_uint_eq(daemon_.n_replies, 0);
	tear_down();
}
END_TEST

START_TEST(text_from_outside_is_made_safe)
{
	char out[32];

	ck_assert_str_eq(jstd_quote(out, sizeof(out), "plain", 5), "plain");
	ck_assert_str_eq(jstd_quote(out, sizeof(out), "a\n\x1b\\z", 9), "a\\x0a\\x1b\\x5cz");
	ck_assert_str_eq(jstd_quote(out, sizeof(out), "unterminated", 3), "unt");
	for (size_t room = 10; room < sizeof(out); room++) {
		char text[64];

		memset(text, (int)t_between(1, 255), sizeof(text));
		jstd_quote(out, room, text, sizeof(text));
		T_CHECK(strlen(out) < room);
		T_CHECK(!strcmp(out + strlen(out) - 3, "..."));
	}
}
END_TEST

T_MAIN("clients", each_device_has_an_arbiter_from_its_first_client_to_its_last,
       a_look_is_answered_with_tokens_and_a_wake, no_greeting_of_any_length_or_content_does_harm,
       silent_connections_push_out_the_oldest, a_full_table_refuses_until_somebody_leaves,
       status_is_cut_short_by_a_reader_that_leaves, text_from_outside_is_made_safe)
