/* SPDX-License-Identifier: MIT */
/*
 * Names of templates.
 *
 * Action View compiles a template into a method that is called after its path, a hash of it, and an
 * object's number: "_app_views_items_index_html_erb__2943_14500", in a class without a name. The
 * numbers differ in each process. Here such a method gets a name that is the same in all of them.
 */
#ifndef RUT_AGENT_TEMPLATE_H
#define RUT_AGENT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

/* The class that is shown for all templates. */
#define RUT_TEMPLATE_CLASS "ActionView::Template"

/*
 * Is this method, from the file `path`, a template? Then `buf` gets its name, without its end when
 * that does not fit: the path below the last "views" directory, or file and directory.
 */
bool rut_agent_template_name(const char *path, const char *method, char *buf, size_t size);

#endif
