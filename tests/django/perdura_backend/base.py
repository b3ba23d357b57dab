"""The backend's classes: those of Django's MySQL backend, which are told that either engine is InnoDB.

Tests ask for the engine's name to know what it can, and the schema editor leaves the index of a foreign key to InnoDB.
"""

from django.db.backends.mysql import base, features, introspection


class DatabaseFeatures(features.DatabaseFeatures):
    _mysql_storage_engine = "InnoDB"


class DatabaseIntrospection(introspection.DatabaseIntrospection):
    def get_storage_engine(self, cursor, table_name):
        return "InnoDB"


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
    introspection_class = DatabaseIntrospection
