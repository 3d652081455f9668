/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Counters of a running world, printed. */
#ifndef SOFTHCA_REPORT_H
#define SOFTHCA_REPORT_H

#include "card.h"

void hca_report_table(const struct hca_stat *st);
void hca_report_json(const struct hca_stat *st);

#endif
