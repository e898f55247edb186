<?php
// A page in the phases of a blog: rewriting the address, the plug-ins, the database, rendering, sending.
// What is slow in it is not in it: see run.

$config = parse_ini_file(getenv('SHOP_CONFIG'));

// url_rewrite
$path = preg_replace('{/+}', '/', $_SERVER['REQUEST_URI']);

// plugins: one asks for the address of a service
if ($config['plugin'] && strpos($path, 'plugin')) {
    gethostbyname('stars.example');
}

// db_queries
$db = mysqli_init();
$db->real_connect($config['host'], 'shop', '', 'shop', 3306);
$rows = $db->query('SELECT id, title FROM post ORDER BY id LIMIT 50')->fetch_all();
if (strpos($path, 'order')) {
    $db->query("INSERT INTO post (title) VALUES ('" . str_repeat('x', 200) . "')");
}

// rendering
$html = '';
for ($i = 0; $i < (strpos($path, 'archive') ? 20000 : 2000); $i++) {
    foreach ($rows as $row) {
        $html .= htmlspecialchars(md5($row[1] . $i));
    }
}

// send_to_client
header('Content-Type: text/html');
echo substr($html, 0, 4096);
