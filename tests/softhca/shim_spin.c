// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Programs that wait for a change of memory without any call. The keeper of the world asks
 * a thread that has had the baton for long; the thread steps through its next instructions
 * one by one. If it comes back to where it was with all its registers as they were, nothing
 * that it does can end the loop: it waits for the card, or for another thread, and so do we.
 * Otherwise it is at work and goes on.
 */
#include <link.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "hca.h"
#include "shim.h"

#define MAX_STEPS 200
#define TRAP_FLAG 0x100

static __thread struct {
	bool is_stepping;
	int steps;
	greg_t regs[REG_RIP + 1];
	uint64_t since_ns;
} spin;

static struct sigaction theirs;		/* what the application wants for SIGTRAP */
static uintptr_t ours_begin, ours_end;

static bool is_ours(const ucontext_t *uc)
{
	uintptr_t ip = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	return ip - ours_begin < ours_end - ours_begin;
}

static void wait_spinning(void)
{
	uint64_t now = vc_now_ns();

	if (!spin.since_ns)
		spin.since_ns = now;
	vc_spinners++;
	if (vc_wait(VC_SPIN, now + vc_nap_ns(spin.since_ns, now)))
		spin.since_ns = 0;
	vc_spinners--;
}

static void on_ask(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	(void)sig;
	(void)si;
	if (!vc_takes_part() || spin.is_stepping || is_ours(uc))
		return;
	memcpy(spin.regs, uc->uc_mcontext.gregs, sizeof(spin.regs));
	spin.steps = 0;
	spin.is_stepping = true;
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void stop_stepping(ucontext_t *uc)
{
	spin.is_stepping = false;
	uc->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

static void on_step(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;

	if (!spin.is_stepping) {
		hca_pass_on(&theirs, sig, si, context);
		return;
	}
	if (is_ours(uc) || ++spin.steps > MAX_STEPS) {
		stop_stepping(uc);
	} else if (!memcmp(spin.regs, uc->uc_mcontext.gregs, sizeof(spin.regs))) {
		stop_stepping(uc);
		wait_spinning();
	}
}

static int find_ours(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	(void)bytes;
	(void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && p->p_flags & PF_X &&
		    (uintptr_t)find_ours - begin < p->p_memsz) {
			ours_begin = begin;
			ours_end = begin + p->p_memsz;
			return 1;
		}
	}
	return 0;
}

void hca_spin_begin(void)
{
	struct sigaction ask = { .sa_sigaction = on_ask, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction step = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_RESTART };

	dl_iterate_phdr(find_ours, NULL);
	/* What waits in the handler may be woken by the clock's signal, and by no other. */
	sigfillset(&ask.sa_mask);
	sigfillset(&step.sa_mask);
	sigaction(VC_SPIN_SIGNAL, &ask, NULL);
	sigaction(SIGTRAP, &step, &theirs);
}
