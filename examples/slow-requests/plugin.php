<?php
// Plug-in of WordPress: what makes a page slow when it is asked for. See run.
add_action('init', function () {
    global $wpdb;
    // The address of a service.
    if (isset($_GET['stars'])) {
        gethostbyname('stars.example');
    }
    if (isset($_GET['order'])) {
        $wpdb->query("INSERT INTO post (title) VALUES ('" . str_repeat('x', 200) . "')");
    }
    for ($i = 0; isset($_GET['archive']) && $i < 600000; $i++) {
        md5(str_repeat($i, 20));
    }
});
