"""Settings of Django's test suite for `cargo xtask django`: two databases on the server whose socket PERDURA_SOCKET names."""

import os


def database(name):
    return {
        "ENGINE": "perdura_backend",
        "NAME": name,
        "USER": "root",
        "HOST": os.environ["PERDURA_SOCKET"],
        "TEST": {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_general_ci"},
    }


DATABASES = {"default": database("django"), "other": database("django_other")}
SECRET_KEY = "of no use"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
