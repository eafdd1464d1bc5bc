import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** What a Java application does through pgjdbc. Prints "name ... ok" or "name ... FAILED (reason)". */
public final class Checks {
    /** A check: it throws if a promise is broken. */
    interface Check {
        void run(String url) throws Exception;
    }

    /** Statement that must fail. */
    private interface Work {
        void run() throws Exception;
    }

    private Checks() {
    }

    /** Runs every check against the URL. */
    public static void main(String[] arguments) {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("prepared statements beyond the threshold", Checks::preparedStatements);
        checks.put("types there and back as text", url -> types(url + "&binaryTransfer=false"));
        checks.put("types there and back as binary", url -> types(url + "&binaryTransfer=true&prepareThreshold=-1"));
        checks.put("simple query mode", url -> types(url + "&preferQueryMode=simple"));
        checks.put("null of every type", Checks::nulls);
        checks.put("batch", Checks::batch);
        checks.put("batch rewritten to many rows", Checks::rewrittenBatch);
        checks.put("a batch that fails", Checks::failedBatch);
        checks.put("fetch size by portals", Checks::fetchSize);
        checks.put("transactions and savepoints", Checks::transactions);
        checks.put("generated keys", Checks::generatedKeys);
        checks.put("CopyManager in and out", Checks::copy);
        checks.put("SQLState of errors", Checks::states);
        checks.put("isolation and read only settings", Checks::settings);
        checks.put("query timeout", Checks::queryTimeout);
        checks.putAll(new TreeMap<>(Metadata.checks()));
        boolean failed = false;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try {
                check.getValue().run(arguments[0]);
                System.out.println(check.getKey() + " ... ok");
            } catch (Exception | AssertionError failure) {
                failed = true;
                String state = failure instanceof SQLException problem ? problem.getSQLState() + " " : "";
                String reason = (state + failure.getMessage()).replaceAll("\\s+", " ");
                System.out.println(check.getKey() + " ... FAILED (" + reason + ")");
            }
        }
        System.exit(failed ? 1 : 0);
    }

    static Connection connect(String url) throws SQLException {
        return DriverManager.getConnection(url + "&connectTimeout=10&socketTimeout=60");
    }

    static void run(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String sql : statements) {
                statement.execute(sql);
            }
        }
    }

    static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    static void expect(Object found, Object wanted) {
        if (!Objects.deepEquals(found, wanted)) {
            throw new AssertionError(found + " in place of " + wanted);
        }
    }

    private static SQLException fails(String state, Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException failure) {
            expect(failure.getSQLState(), state);
            return failure;
        }
        throw new AssertionError("no error " + state);
    }

    private static void preparedStatements(String url) throws Exception {
        try (Connection connection = connect(url + "&prepareThreshold=3")) {
            run(connection, "drop table if exists p", "create table p (id int primary key, n bigint, t text)");
            try (PreparedStatement insert = connection.prepareStatement("insert into p values (?, ?, ?)");
                    PreparedStatement select = connection.prepareStatement("select n, t from p where id = ?")) {
                for (int key = 0; key < 40; key++) {
                    insert.setInt(1, key);
                    insert.setLong(2, key * 10_000_000_000L);
                    insert.setString(3, "row " + key);
                    expect(insert.executeUpdate(), 1);
                }
                for (int key = 0; key < 40; key++) {
                    select.setInt(1, key);
                    try (ResultSet rows = select.executeQuery()) {
                        expect(rows.next(), true);
                        expect(rows.getLong(1), key * 10_000_000_000L);
                        expect(rows.getString("t"), "row " + key);
                        expect(rows.next(), false);
                    }
                }
            }
        }
    }

    private static final String ALL_TYPES = "create table typed (id serial primary key, b boolean, i2 smallint, i4 integer, i8 bigint, "
            + "n numeric, m numeric(12,2), f4 real, f8 double precision, t text, v varchar(9), c char(4), y bytea, d date, "
            + "ts timestamp, tz timestamptz, u uuid)";

    private static void types(String url) throws Exception {
        Object[] values = {true, Short.MIN_VALUE, Integer.MAX_VALUE, Long.MIN_VALUE, new BigDecimal("123456789012345678901234.000100"),
            new BigDecimal("-9999999999.99"), 1.5f, -0.1, "grün ☃ 'quoted'", "nine char", "ab  ", new byte[] {0, -1, 10, 39, 92},
            LocalDate.of(2024, 2, 29), LocalDateTime.of(1999, 12, 31, 23, 59, 59, 999_999_000),
            OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 1_000, ZoneOffset.UTC), UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")};
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists typed", ALL_TYPES);
            String sql = "insert into typed (b, i2, i4, i8, n, m, f4, f8, t, v, c, y, d, ts, tz, u) values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
            for (int round = 0; round < 7; round++) {
                try (PreparedStatement insert = connection.prepareStatement(sql)) {
                    for (int at = 0; at < values.length; at++) {
                        insert.setObject(at + 1, values[at]);
                    }
                    insert.executeUpdate();
                }
            }
            try (PreparedStatement select = connection.prepareStatement("select * from typed where i8 = ? order by id")) {
                for (int round = 0; round < 7; round++) {
                    select.setLong(1, Long.MIN_VALUE);
                    try (ResultSet rows = select.executeQuery()) {
                        for (int row = 0; row < 7; row++) {
                            expect(rows.next(), true);
                            compare(rows, values);
                        }
                        expect(rows.next(), false);
                    }
                }
            }
        }
    }

    private static void compare(ResultSet rows, Object[] values) throws SQLException {
        for (int at = 0; at < values.length; at++) {
            int column = at + 2;
            Object found;
            if (values[at] instanceof byte[]) {
                found = rows.getBytes(column);
            } else if (values[at] instanceof Short) {
                found = rows.getShort(column);
            } else {
                found = rows.getObject(column, values[at].getClass());
            }
            expect(found, values[at]);
        }
    }

    private static void nulls(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists typed", ALL_TYPES);
            try (PreparedStatement insert = connection.prepareStatement("insert into typed (b, i4, n, t, y, d, u) values (?,?,?,?,?,?,?)")) {
                int[] kinds = {Types.BOOLEAN, Types.INTEGER, Types.NUMERIC, Types.VARCHAR, Types.BINARY, Types.DATE, Types.OTHER};
                for (int at = 0; at < kinds.length; at++) {
                    insert.setNull(at + 1, kinds[at]);
                }
                insert.executeUpdate();
            }
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("select * from typed")) {
                rows.next();
                for (int column = 2; column <= 17; column++) {
                    expect(rows.getObject(column), null);
                }
                expect(rows.getInt("i4"), 0);
                expect(rows.wasNull(), true);
            }
        }
    }

    private static void batch(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists b", "create table b (id int primary key, n int)");
            connection.setAutoCommit(false);
            try (PreparedStatement insert = connection.prepareStatement("insert into b values (?, ?)")) {
                for (int key = 0; key < 2000; key++) {
                    insert.setInt(1, key);
                    insert.setInt(2, key);
                    insert.addBatch();
                }
                expect(Arrays.stream(insert.executeBatch()).sum(), 2000);
            }
            connection.commit();
            try (Statement mixed = connection.createStatement()) {
                mixed.addBatch("update b set n = n + 1 where id < 10");
                mixed.addBatch("delete from b where id >= 1000");
                mixed.addBatch("insert into b values (5000, 1)");
                expect(mixed.executeBatch(), new int[] {10, 1000, 1});
            }
            connection.commit();
            expect(number(connection, "select count(*) from b"), 1001L);
        }
    }

    private static void rewrittenBatch(String url) throws Exception {
        try (Connection connection = connect(url + "&reWriteBatchedInserts=true")) {
            run(connection, "drop table if exists b", "create table b (id int primary key, t text)");
            try (PreparedStatement insert = connection.prepareStatement("insert into b values (?, ?)")) {
                for (int key = 0; key < 1000; key++) {
                    insert.setInt(1, key);
                    insert.setString(2, "row " + key);
                    insert.addBatch();
                }
                insert.executeBatch();
            }
            expect(number(connection, "select count(*) from b where t like 'row %'"), 1000L);
        }
    }

    private static void failedBatch(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists b", "create table b (id int primary key)");
            connection.setAutoCommit(false);
            try (PreparedStatement insert = connection.prepareStatement("insert into b values (?)")) {
                for (int key : new int[] {1, 2, 2, 3}) {
                    insert.setInt(1, key);
                    insert.addBatch();
                }
                insert.executeBatch();
                throw new AssertionError("a duplicate key was accepted");
            } catch (BatchUpdateException failure) {
                expect(failure.getSQLState(), "23505");
            }
            connection.rollback();
            expect(number(connection, "select count(*) from b"), 0L);
        }
    }

    private static void fetchSize(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists f", "create table f (id int primary key)");
            CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
            StringBuilder lines = new StringBuilder();
            for (int key = 0; key < 5000; key++) {
                lines.append(key).append('\n');
            }
            expect(copies.copyIn("copy f from stdin", new StringReader(lines.toString())), 5000L);
            connection.setAutoCommit(false);
            try (Statement one = connection.createStatement(); Statement two = connection.createStatement()) {
                one.setFetchSize(100);
                two.setFetchSize(7);
                try (ResultSet rows = one.executeQuery("select id from f order by id");
                        ResultSet others = two.executeQuery("select id from f order by id desc")) {
                    for (int key = 0; key < 5000; key++) {
                        expect(rows.next(), true);
                        expect(rows.getInt(1), key);
                        if (key < 50) {
                            expect(others.next(), true);
                            expect(others.getInt(1), 4999 - key);
                        }
                    }
                    expect(rows.next(), false);
                }
            }
            connection.commit();
        }
    }

    private static void transactions(String url) throws Exception {
        try (Connection connection = connect(url); Connection other = connect(url)) {
            run(connection, "drop table if exists x", "create table x (id int primary key)");
            connection.setAutoCommit(false);
            run(connection, "insert into x values (1)");
            Savepoint savepoint = connection.setSavepoint("here");
            run(connection, "insert into x values (2)");
            fails("23505", () -> run(connection, "insert into x values (1)"));
            fails("25P02", () -> run(connection, "select 1"));
            connection.rollback(savepoint);
            run(connection, "insert into x values (3)");
            expect(number(other, "select count(*) from x"), 0L);
            connection.commit();
            expect(number(other, "select sum(id) from x"), 4L);
            run(connection, "delete from x");
            connection.rollback();
            expect(number(other, "select count(*) from x"), 2L);
        }
    }

    private static void generatedKeys(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists g", "create table g (id serial primary key, t text, n int default 7)");
            try (PreparedStatement insert = connection.prepareStatement("insert into g (t) values (?)", Statement.RETURN_GENERATED_KEYS)) {
                insert.setString(1, "first");
                insert.executeUpdate();
                try (ResultSet keys = insert.getGeneratedKeys()) {
                    expect(keys.next(), true);
                    expect(keys.getInt("id"), 1);
                    expect(keys.getInt("n"), 7);
                }
            }
            try (PreparedStatement insert = connection.prepareStatement("insert into g (t) values (?)", new String[] {"id"})) {
                for (int n = 0; n < 3; n++) {
                    insert.setString(1, "more");
                    insert.addBatch();
                }
                insert.executeBatch();
                try (ResultSet keys = insert.getGeneratedKeys()) {
                    for (int id = 2; id <= 4; id++) {
                        expect(keys.next(), true);
                        expect(keys.getInt(1), id);
                    }
                }
            }
        }
    }

    private static void copy(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists c", "create table c (id int primary key, t text)");
            CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
            byte[] csv = "id,t\n1,\"a, b\"\n2,\n3,\"line\nbreak\"\n".getBytes(StandardCharsets.UTF_8);
            expect(copies.copyIn("copy c from stdin (format csv, header)", new ByteArrayInputStream(csv)), 3L);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            expect(copies.copyOut("copy c to stdout (format csv, header)", out), 3L);
            expect(out.toString(StandardCharsets.UTF_8), new String(csv, StandardCharsets.UTF_8));
            fails("22P04", () -> copies.copyIn("copy c from stdin", new StringReader("4\n")));
            fails("22P02", () -> copies.copyIn("copy c from stdin", new StringReader("5\tx\nsix\ty\n")));
            expect(number(connection, "select count(*) from c"), 3L);
        }
    }

    private static void states(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists s", "create table s (id int primary key, n int not null check (n > 0), v varchar(3))");
            String[][] wrong = {{"23502", "insert into s values (1, null)"}, {"23514", "insert into s values (1, 0)"},
                {"22001", "insert into s values (1, 1, 'long')"}, {"42P01", "select * from nothing"}, {"42703", "select x from s"},
                {"42601", "selec"}, {"22012", "select 1/0"}, {"22P02", "select 'x'::int"}, {"42P07", "create table s (id int)"},
                {"42883", "select nothing(1)"}, {"22008", "select '2023-02-30'::date"}};
            for (String[] pair : wrong) {
                fails(pair[0], () -> run(connection, pair[1]));
            }
            try (PreparedStatement insert = connection.prepareStatement("insert into s values (?, ?)")) {
                insert.setInt(1, 1);
                insert.setInt(2, -1);
                for (int round = 0; round < 8; round++) {
                    fails("23514", insert::executeUpdate);
                }
                insert.setInt(2, 1);
                expect(insert.executeUpdate(), 1);
                fails("23505", insert::executeUpdate);
            }
        }
    }

    private static void settings(String url) throws Exception {
        try (Connection connection = connect(url)) {
            run(connection, "drop table if exists r", "create table r (id int primary key)");
            connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            connection.setReadOnly(true);
            connection.setAutoCommit(false);
            fails("25006", () -> run(connection, "insert into r values (1)"));
            connection.rollback();
            connection.setReadOnly(false);
            run(connection, "insert into r values (1)");
            connection.commit();
            expect(connection.isValid(5), true);
            expect(connection.getMetaData().getDatabaseProductName(), "PostgreSQL");
            expect(connection.getMetaData().getDatabaseMajorVersion(), 15);
        }
    }

    private static void queryTimeout(String url) throws Exception {
        try (Connection holder = connect(url); Connection waiter = connect(url)) {
            run(holder, "drop table if exists q", "create table q (id int primary key)", "insert into q values (1)");
            holder.setAutoCommit(false);
            run(holder, "select id from q where id = 1 for update");
            try (Statement statement = waiter.createStatement()) {
                statement.setQueryTimeout(1);
                fails("57014", () -> statement.execute("select id from q where id = 1 for update"));
            }
            holder.rollback();
            expect(number(waiter, "select count(*) from q"), 1L);
        }
    }
}
