"""SQLAlchemy 2 against a server: `sqlalchemy_checks.py URL`. Core, ORM, reflection, and a migration by Alembic."""

import datetime
import decimal
import sys
import uuid

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from checks import check, expect, fails, run
from sqlalchemy import orm


class Base(orm.DeclarativeBase):
    pass


membership = sa.Table(
    "membership", Base.metadata,
    sa.Column("band_id", sa.ForeignKey("band.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("musician_id", sa.ForeignKey("musician.id"), primary_key=True),
)


class Band(Base):
    __tablename__ = "band"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(80), unique=True)
    founded: orm.Mapped[datetime.date | None]
    fee: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(12, 2), server_default=sa.text("0"))
    members: orm.Mapped[list["Musician"]] = orm.relationship(secondary=membership, back_populates="bands")
    concerts: orm.Mapped[list["Concert"]] = orm.relationship(back_populates="band", cascade="all, delete-orphan")
    __table_args__ = (sa.CheckConstraint("fee >= 0", name="fee_not_negative"), sa.Index("band_founded_name", "founded", "name"))


class Musician(Base):
    __tablename__ = "musician"
    id: orm.Mapped[uuid.UUID] = orm.mapped_column(primary_key=True, default=uuid.uuid4)
    name: orm.Mapped[str]
    bands: orm.Mapped[list[Band]] = orm.relationship(secondary=membership, back_populates="members")


class Concert(Base):
    __tablename__ = "concert"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    band_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("band.id", name="concert_band"))
    at: orm.Mapped[datetime.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    band: orm.Mapped[Band] = orm.relationship(back_populates="concerts")


@check
def tables_are_made_as_declared(engine):
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    expect(sorted(sa.inspect(engine).get_table_names()), ["band", "concert", "membership", "musician"])
    with engine.connect() as conn:
        expect(compare_metadata(MigrationContext.configure(conn), Base.metadata), [])


@check
def core_writes_reads_and_returns(engine):
    table = Base.metadata.tables["band"]
    with engine.begin() as conn:
        made = conn.execute(sa.insert(table).returning(table.c.id), [{"name": name} for name in ("Arrau", "Brendel", "Cortot")]).all()
        expect(len(made), 3)
        conn.execute(sa.update(table).where(table.c.name == "Brendel").values(fee=table.c.fee + 10))
        rows = conn.execute(sa.select(table.c.name, table.c.fee).where(table.c.name.in_(["Brendel", "Cortot"])).order_by(table.c.name)).all()
        expect([tuple(row) for row in rows], [("Brendel", decimal.Decimal("10.00")), ("Cortot", decimal.Decimal("0.00"))])
        expect(conn.scalar(sa.select(sa.func.count()).select_from(table)), 3)
        conn.execute(sa.delete(table))


@check
def sessions_keep_objects_and_relations(engine):
    with orm.Session(engine) as session:
        band = Band(name="Kronos", founded=datetime.date(1973, 9, 1), fee=decimal.Decimal("100.50"))
        band.members = [Musician(name=name) for name in ("David", "Hank", "John")]
        band.concerts = [Concert(), Concert()]
        session.add(band)
        session.commit()
        expect(band.id is not None and all(concert.id for concert in band.concerts), True)
    with orm.Session(engine) as session:
        query = sa.select(Band).options(orm.selectinload(Band.members), orm.joinedload(Band.concerts)).where(Band.name == "Kronos")
        band = session.scalars(query).unique().one()
        expect((sorted(member.name for member in band.members), len(band.concerts)), (["David", "Hank", "John"], 2))
        count = sa.select(Band.name, sa.func.count(Musician.id)).join(Band.members).group_by(Band.name)
        expect([tuple(row) for row in session.execute(count)], [("Kronos", 3)])
        expect(session.scalar(sa.select(sa.func.count()).where(Band.concerts.any())), 1)
        session.delete(band.concerts[0])
        session.commit()
        expect(session.scalar(sa.select(sa.func.count(Concert.id))), 1)


@check
def constraints_are_errors_of_their_class(engine):
    with orm.Session(engine) as session:
        session.add(Band(name="Kronos"))
        fails(sa.exc.IntegrityError, session.commit)
    with orm.Session(engine) as session:
        session.add(Band(name="Cheap", fee=-1))
        fails(sa.exc.IntegrityError, session.commit)


@check
def savepoints_and_rollback(engine):
    with orm.Session(engine) as session, session.begin():
        session.add(Musician(name="Anner"))
        with fails_within(session):
            session.add(Band(name="Kronos"))
            session.flush()
    with orm.Session(engine) as session:
        expect(session.scalar(sa.select(sa.func.count()).where(Musician.name == "Anner")), 1)


class fails_within:
    """A savepoint in which the work fails."""

    def __init__(self, session):
        self.savepoint = session.begin_nested()

    def __enter__(self):
        return self.savepoint.__enter__()

    def __exit__(self, kind, *more):
        self.savepoint.__exit__(kind, *more)
        return kind is not None and issubclass(kind, sa.exc.IntegrityError)


@check
def reflection_finds_columns(engine):
    columns = {column["name"]: column for column in sa.inspect(engine).get_columns("band")}
    expect(list(columns), ["id", "name", "founded", "fee"])
    expect(str(columns["fee"]["type"]), "NUMERIC(12, 2)")
    expect([columns[name]["nullable"] for name in columns], [False, False, True, False])
    expect(columns["id"]["default"], "nextval('band_id_seq'::regclass)")
    identity = {column["name"]: column for column in sa.inspect(engine).get_columns("concert")}["id"]["identity"]
    expect((identity["always"], identity["start"], identity["increment"]), (False, 1, 1))


@check
def reflection_finds_keys_and_indexes(engine):
    inspector = sa.inspect(engine)
    expect(inspector.get_pk_constraint("membership")["constrained_columns"], ["band_id", "musician_id"])
    keys = {key["name"]: (key["constrained_columns"], key["referred_table"], key["options"]) for key in inspector.get_foreign_keys("membership")}
    expect(keys["membership_band_id_fkey"], (["band_id"], "band", {"ondelete": "CASCADE"}))
    expect(inspector.get_foreign_keys("concert")[0]["name"], "concert_band")
    indexes = {index["name"]: (index["column_names"], index["unique"]) for index in inspector.get_indexes("band")}
    expect(indexes["band_founded_name"], (["founded", "name"], False))
    expect([key["column_names"] for key in inspector.get_unique_constraints("band")], [["name"]])
    expect([(found["name"], found["sqltext"]) for found in inspector.get_check_constraints("concert")], [])
    expect(inspector.get_check_constraints("band")[0]["name"], "fee_not_negative")
    expect((inspector.has_table("band"), inspector.has_table("none"), inspector.has_index("band", "band_founded_name")), (True, False, True))


@check
def reflection_of_everything_makes_usable_tables(engine):
    found = sa.MetaData()
    found.reflect(engine)
    expect(sorted(found.tables), ["band", "concert", "membership", "musician"])
    band = found.tables["band"]
    with engine.connect() as conn:
        expect(conn.scalar(sa.select(band.c.name).join(found.tables["concert"])), "Kronos")
    inspector = sa.inspect(engine)
    for name in ("columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints", "table_comment"):
        expect(len(getattr(inspector, f"get_multi_{name}")()), 4)
    expect((inspector.get_enums(), inspector.get_domains(), inspector.get_view_names()), ([], [], []))
    expect(sorted(inspector.get_sequence_names()), ["band_id_seq", "concert_id_seq"])


@check
def alembic_changes_the_schema_and_sees_it(engine):
    with engine.begin() as conn:
        migration = Operations(MigrationContext.configure(conn))
        migration.add_column("band", sa.Column("label", sa.String(20), nullable=True))
        migration.create_index("band_label", "band", ["label"], unique=True)
        migration.alter_column("musician", "name", new_column_name="full_name")
        migration.create_table("venue", sa.Column("id", sa.Integer, primary_key=True), sa.Column("city", sa.Text, nullable=False))
        migration.add_column("concert", sa.Column("venue_id", sa.Integer))
        migration.create_foreign_key("concert_venue", "concert", "venue", ["venue_id"], ["id"])
    with engine.connect() as conn:
        kinds = sorted(str(change[0]) for change in compare_metadata(MigrationContext.configure(conn), Base.metadata) if isinstance(change, tuple))
        expect(kinds, ["add_column", "remove_column", "remove_column", "remove_column", "remove_fk", "remove_index", "remove_table"])
    with engine.begin() as conn:
        migration = Operations(MigrationContext.configure(conn))
        migration.drop_constraint("concert_venue", "concert", type_="foreignkey")
        migration.drop_table("venue")
        migration.drop_column("concert", "venue_id")
        migration.alter_column("musician", "full_name", new_column_name="name")
        migration.drop_index("band_label")
        migration.drop_column("band", "label")
        expect(compare_metadata(MigrationContext.configure(conn), Base.metadata), [])


@check
def everything_is_dropped(engine):
    Base.metadata.drop_all(engine)
    expect(sa.inspect(engine).get_table_names(), [])


if __name__ == "__main__":
    address = sys.argv[1].replace("postgres://", "postgresql+psycopg://")
    sys.exit(run(sa.create_engine(address, connect_args={"connect_timeout": 10}), sys.argv[2:]))
