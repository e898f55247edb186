<?php
// A page in the phases of a blog: rewriting the address, the plug-ins, the database, rendering, sending.
// What is slow in it is not in it: see run.

// plug-ins: one asks for the address of a service
if (isset($_GET['stars'])) {
    gethostbyname('stars.example');
}

// db_queries
$db = mysqli_init();
$db->real_connect('10.77.0.2', 'shop', '', 'shop', 3306);
$rows = $db->query('SELECT id, title FROM post ORDER BY id LIMIT 50')->fetch_all();
if (isset($_GET['order'])) {
    $db->query("INSERT INTO post (title) VALUES ('" . str_repeat('x', 200) . "')");
}

// rendering: looks for the theme's part, as WordPress does
is_readable(__DIR__ . '/content.php');
$html = '';
for ($i = 0; $i < (isset($_GET['archive']) ? 60000 : 2000); $i++) {
    foreach ($rows as $row) {
        $html .= htmlspecialchars(md5($row[1] . $i));
    }
}

// send_to_client
header('Content-Type: text/html');
echo substr($html, 0, 4096);
