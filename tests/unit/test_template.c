/* SPDX-License-Identifier: MIT */
/* Names of methods that Action View makes of templates, and of some that only look like that. */
#include "agent/template.h"
#include "unit.h"

static const struct {
	const char *path, *method, *name; /* NULL: no template */
} cases[] = {
	{"/srv/app/views/items/index.html.erb",
	 "_app_views_items_index_html_erb__2943128736211534211_14500", "items/index.html.erb"},
	{"/srv/app/views/items/index.html.erb",
	 "_app_views_items_index_html_erb___2943128736211534211_14500", "items/index.html.erb"},
	{"/srv/app/views/Items/_new2.html.erb", "_srv_app_views__tems__new__html_erb___29_14500",
	 "Items/_new2.html.erb"},
	{"/gems/x/views/a/app/views/b.erb", "_gems_x_views_a_app_views_b_erb__1_2", "b.erb"},
	{"/tmp/t/mail/hello.text.erb", "_tmp_t_mail_hello_text_erb__1_2", "mail/hello.text.erb"},
	{"hello.erb", "_hello_erb__1_2", "hello.erb"},
	{"inline template", "_inline_template__12_34", "inline template"},
	{"/srv/app/views/odd_", "_app_views_odd___12_34", "odd_"},
	{"/srv/app/views/items/index.html.erb", "_app_views_items_show_html_erb__29_14500", NULL},
	{"/srv/lib/a.rb", "_call__1_2", NULL},
	{"/srv/lib/a.rb", "_a_rb_1_2", NULL},
	{"/srv/lib/a.rb", "_a_rb__x_2", NULL},
	{"/srv/lib/a.rb", "_a_rb__2", NULL},
	{"/srv/lib/a.rb", "a_rb__1_2", NULL},
	{"a", "_123456789_a__1_2", NULL},
	{"", "___1_2", NULL},
	{"/a", "_", NULL},
	{"/a", "_1", NULL},
	{"/a", "_1_1", NULL},
	{"/a", "__1_1", NULL},
	{"/a", "", NULL},
	{NULL, "_a__1_2", NULL},
	{"/a", NULL, NULL},
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char name[64] = "untouched";
		bool is =
			rut_agent_template_name(cases[i].path, cases[i].method, name, sizeof(name));

		assert_int_equal(is, cases[i].name != NULL);
		assert_string_equal(name, is ? cases[i].name : "untouched");
	}
}

static void test_long(void **state)
{
	char name[6];

	(void)state;
	assert_true(rut_agent_template_name("/v/views/index.erb", "_views_index_erb__1_2", name,
					    sizeof(name)));
	assert_string_equal(name, "index");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
