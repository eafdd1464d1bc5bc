"""Django against a server: `django_checks.py URL`. Its own migrations, inspectdb, and the queries of its models."""

import contextlib
import datetime
import decimal
import io
import pathlib
import sys
import types
import urllib.parse
import uuid

import django
from checks import check, expect, fails, run
from django.apps import apps
from django.conf import settings

# The models below are those of an application of this name.
library = types.ModuleType("library")
library.__path__ = [str(pathlib.Path(__file__).parent)]
sys.modules["library"] = library
where = urllib.parse.urlsplit(sys.argv[1])
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "library"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "HOST": where.hostname, "PORT": where.port, "NAME": where.path[1:], "USER": where.username,
    }},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from django.core.management import call_command  # noqa: E402  (the settings come first)
from django.db import IntegrityError, connection, migrations, models, transaction  # noqa: E402
from django.db.migrations.state import ProjectState  # noqa: E402
from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Prefetch, Q, Sum  # noqa: E402


class Publisher(models.Model):
    name = models.CharField(max_length=80, unique=True)

    class Meta:
        app_label = "library"


class Author(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.TextField()

    class Meta:
        app_label = "library"


class Book(models.Model):
    title = models.CharField(max_length=200, db_index=True)
    price = models.DecimalField(max_digits=10, decimal_places=2, default=1)
    published = models.DateTimeField(null=True)
    publisher = models.ForeignKey(Publisher, on_delete=models.CASCADE, related_name="books")
    authors = models.ManyToManyField(Author)

    class Meta:
        app_label = "library"
        indexes = [models.Index(fields=["price", "title"], name="book_price_title")]
        constraints = [models.CheckConstraint(condition=Q(price__gt=0), name="price_positive")]


@check
def its_own_migrations_are_applied(_):
    call_command("migrate", verbosity=0)
    said = io.StringIO()
    call_command("showmigrations", stdout=said)
    expect("[ ]" in said.getvalue(), False)
    expect(apps.get_model("auth.Permission").objects.count() > 0, True)


@check
def tables_of_models_are_made(_):
    with connection.schema_editor() as editor:
        for model in (Publisher, Author, Book):
            editor.create_model(model)
    expect({"library_book", "library_book_authors"} <= set(connection.introspection.table_names()), True)


@check
def introspection_says_what_was_made(_):
    with connection.cursor() as cursor:
        look = connection.introspection
        columns = {column.name: column for column in look.get_table_description(cursor, "library_book")}
        expect(list(columns), ["id", "title", "price", "published", "publisher_id"])
        expect((columns["id"].is_autofield, columns["published"].null_ok, columns["title"].null_ok), (True, True, False))
        expect(look.get_relations(cursor, "library_book")["publisher_id"][:2], ("id", "library_publisher"))
        expect(look.get_primary_key_columns(cursor, "library_book"), ["id"])
        expect([found["column"] for found in look.get_sequences(cursor, "library_book")], ["id"])
        constraints = look.get_constraints(cursor, "library_book")
        expect(constraints["price_positive"]["check"] and constraints["price_positive"]["columns"], ["price"])
        expect((constraints["book_price_title"]["columns"], constraints["book_price_title"]["index"]), (["price", "title"], True))
        foreign = [found for found in constraints.values() if found["foreign_key"]]
        expect([(found["columns"], found["foreign_key"]) for found in foreign], [(["publisher_id"], ("library_publisher", "id"))])


@check
def inspectdb_writes_models(_):
    said = io.StringIO()
    call_command("inspectdb", stdout=said)
    text = said.getvalue()
    expect([line for line in text.splitlines() if "Unable to inspect" in line or "error was" in line], [])
    for wanted in ("class LibraryBook(models.Model):", "price = models.DecimalField(max_digits=10, decimal_places=2)",
                   "publisher = models.ForeignKey('LibraryPublisher', models.DO_NOTHING)", "name = models.CharField(unique=True, max_length=80)"):
        expect(wanted in text and wanted, wanted)


@check
def objects_are_made_found_and_changed(_):
    publisher = Publisher.objects.create(name="Peters")
    authors = Author.objects.bulk_create([Author(name=name) for name in ("Clara", "Robert")])
    book = Book.objects.create(title="Lieder", publisher=publisher, published=datetime.datetime(1840, 9, 12, tzinfo=datetime.timezone.utc))
    book.authors.add(*authors)
    Book.objects.bulk_create([Book(title=f"Etude {n}", price=n, publisher=publisher) for n in range(1, 11)])
    expect(Book.objects.filter(authors__name="Clara", publisher__name="Peters").count(), 1)
    Book.objects.filter(pk=book.pk).update(price=F("price") + 5)
    book.refresh_from_db()
    expect(book.price, decimal.Decimal("6.00"))
    expect(Publisher.objects.get_or_create(name="Peters")[1], False)
    expect(Publisher.objects.update_or_create(name="Henle", defaults={"name": "Henle Verlag"})[1], True)
    expect([book.title for book in Book.objects.order_by("-price", "title")[:2]], ["Etude 10", "Etude 9"])


@check
def joins_groups_and_queries_within_queries(_):
    counted = Publisher.objects.annotate(n=Count("books"), total=Sum("books__price")).order_by("name").values_list("name", "n", "total")
    expect(list(counted), [("Henle Verlag", 0, None), ("Peters", 11, decimal.Decimal("61.00"))])
    expect(Book.objects.aggregate(Max("price"), Avg("price"))["price__max"], decimal.Decimal("10.00"))
    expect(Publisher.objects.filter(Exists(Book.objects.filter(publisher=OuterRef("pk"), price__gt=9))).count(), 1)
    books = Book.objects.select_related("publisher").prefetch_related(Prefetch("authors", Author.objects.order_by("name")))
    expect([author.name for author in books.get(title="Lieder").authors.all()], ["Clara", "Robert"])
    expect(Book.objects.filter(Q(title__startswith="Etude") & ~Q(price__in=[1, 2]) | Q(published__year=1840)).count(), 9)
    expect(Book.objects.filter(title__icontains="ETUDE", price__range=(2, 4)).exclude(authors__isnull=False).count(), 3)
    expect(Publisher.objects.filter(books__in=Book.objects.filter(price=3)).distinct().count(), 1)


@check
def transactions_and_their_errors(_):
    with transaction.atomic():
        with contextlib.suppress(IntegrityError), transaction.atomic():
            Publisher.objects.create(name="Peters")
        Publisher.objects.select_for_update().get(name="Peters")
        Publisher.objects.create(name="Schott")
    expect(Publisher.objects.filter(name="Schott").exists(), True)
    fails(IntegrityError, Book.objects.create, title="Free", price=0, publisher=Publisher.objects.get(name="Schott"))
    publisher = Publisher.objects.get(name="Peters")
    expect(publisher.delete()[0], 14)


@check
def migrations_change_tables(_):
    before = ProjectState()
    steps = [
        migrations.CreateModel("Score", [
            ("id", models.BigAutoField(primary_key=True)), ("title", models.CharField(max_length=10)), ("pages", models.IntegerField(default=1)),
        ]),
        migrations.AddField("Score", "key", models.CharField(max_length=20, default="C major")),
        migrations.AlterField("Score", "title", models.CharField(max_length=200, unique=True)),
        migrations.RenameField("Score", "pages", "leaves"),
        migrations.AddConstraint("Score", models.CheckConstraint(condition=Q(leaves__gte=0), name="leaves_not_negative")),
        migrations.AddIndex("Score", models.Index(fields=["key", "leaves"], name="score_key")),
        migrations.RemoveIndex("Score", "score_key"),
        migrations.RemoveField("Score", "key"),
        migrations.RenameModel("Score", "Partitur"),
    ]
    for step in steps:
        after = before.clone()
        step.state_forwards("library", after)
        with connection.schema_editor() as editor:
            step.database_forwards("library", editor, before, after)
        before = after
    with connection.cursor() as cursor:
        columns = [column.name for column in connection.introspection.get_table_description(cursor, "library_partitur")]
        expect(columns, ["id", "title", "leaves"])
        constraints = connection.introspection.get_constraints(cursor, "library_partitur")
        expect(sorted(found["columns"] for found in constraints.values() if found["unique"]), [["id"], ["title"]])


@check
def the_test_runner_has_a_database_of_its_own(_):
    own = connection.settings_dict["NAME"]
    made = connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        with connection.cursor() as cursor:
            cursor.execute("select current_database()")
            expect((made, cursor.fetchone()[0]), (f"test_{own}", made))
        expect("django_session" in connection.introspection.table_names(), True)
        expect("library_partitur" in connection.introspection.table_names(), False)
        # As for tests that run side by side: each has a copy, with the rows that the migrations have made.
        connection.creation.clone_test_db("1", verbosity=0, autoclobber=True)
        copy = connection.copy()
        copy.settings_dict = connection.creation.get_test_db_clone_settings("1")
        with copy.cursor() as cursor:
            cursor.execute("select current_database(), (select count(*) > 0 from auth_permission)")
            expect(cursor.fetchone(), (f"{made}_1", True))
        copy.close()
        connection.creation.destroy_test_db(suffix="1", verbosity=0)
    finally:
        connection.creation.destroy_test_db(own, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("select current_database(), count(*) from pg_database where datname like 'test%'")
        expect(cursor.fetchone(), (own, 0))


if __name__ == "__main__":
    sys.exit(run(None, sys.argv[2:]))
