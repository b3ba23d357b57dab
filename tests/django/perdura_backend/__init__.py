"""Django's MySQL backend, driven by PyMySQL: the same for both engines that `cargo xtask django` compares."""

import pymysql

pymysql.install_as_MySQLdb()
