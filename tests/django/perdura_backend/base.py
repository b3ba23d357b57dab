"""The backend's classes: those of Django's MySQL backend, apart from foreign keys, which are left out."""

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.mysql import base, features, schema


class DatabaseFeatures(features.DatabaseFeatures):
    supports_foreign_keys = False
    # Tests ask for the engine's name to know what it can; both engines answer as InnoDB.
    _mysql_storage_engine = "InnoDB"


class DatabaseSchemaEditor(schema.DatabaseSchemaEditor):
    # InnoDB makes the index of a foreign key by itself. Without the constraint it has to be made.
    def _field_should_be_indexed(self, model, field):
        return BaseDatabaseSchemaEditor._field_should_be_indexed(self, model, field)


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
    SchemaEditorClass = DatabaseSchemaEditor
