import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** What tools on JDBC ask a database about itself. */
final class Metadata {
    private static final String[] TABLES = {
        "drop view if exists meta_view", "drop table if exists meta_line", "drop table if exists meta_order",
        "create table meta_order (id bigint generated always as identity primary key, code varchar(10) not null unique, total numeric(12,2) default 1.5, "
            + "placed timestamptz default now(), note text, tags text[])",
        "create table meta_line (order_id bigint references meta_order on delete cascade on update set null, at smallint, amount int not null, "
            + "data bytea, serial_no serial, constraint meta_line_key primary key (order_id, at))",
        "create index meta_line_amount on meta_line (amount, at)",
        "create view meta_view as select id, code from meta_order",
        "comment on table meta_order is 'an order'", "comment on column meta_order.code is 'its code'"};

    private Metadata() {
    }

    /** The checks by their names. */
    static Map<String, Checks.Check> checks() {
        return Map.of(
            "metadata of tables", url -> with(url, Metadata::tables),
            "metadata of columns", url -> with(url, Metadata::columns),
            "metadata of keys", url -> with(url, Metadata::keys),
            "metadata of indexes", url -> with(url, Metadata::indexes),
            "metadata of types, schemas and catalogs", url -> with(url, Metadata::types),
            "metadata of functions and privileges", url -> with(url, Metadata::functions),
            "metadata of results and parameters", Metadata::results);
    }

    /** What is asked of the metadata of a connection. */
    private interface Question {
        void ask(DatabaseMetaData metadata) throws Exception;
    }

    private static void with(String url, Question question) throws Exception {
        try (Connection connection = Checks.connect(url)) {
            Checks.run(connection, TABLES);
            question.ask(connection.getMetaData());
        }
    }

    /** All rows, with these columns of each joined by blanks. */
    private static List<String> rows(ResultSet result, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        try (result) {
            while (result.next()) {
                List<String> row = new ArrayList<>();
                for (String column : columns) {
                    row.add(result.getString(column));
                }
                rows.add(String.join(" ", row.stream().map(String::valueOf).toList()));
            }
        }
        return rows;
    }

    private static void tables(DatabaseMetaData metadata) throws Exception {
        String[] columns = {"TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE", "REMARKS"};
        Checks.expect(rows(metadata.getTables(null, "public", "meta\\_%", new String[] {"TABLE", "VIEW"}), columns),
            List.of("public meta_line TABLE null", "public meta_order TABLE an order", "public meta_view VIEW null"));
        Checks.expect(rows(metadata.getTables(null, null, "meta\\_%", new String[] {"INDEX", "SEQUENCE"}), "TABLE_NAME", "TABLE_TYPE"),
            List.of("meta_line_amount INDEX", "meta_line_key INDEX", "meta_order_code_key INDEX", "meta_order_pkey INDEX",
                "meta_line_serial_no_seq SEQUENCE", "meta_order_id_seq SEQUENCE"));
        Checks.expect(rows(metadata.getTables(null, null, "META_ORDER", null), columns), List.of());
        Checks.expect(rows(metadata.getTables(null, "pg_catalog", "pg_class", new String[] {"SYSTEM TABLE"}), columns),
            List.of("pg_catalog pg_class SYSTEM TABLE null"));
        Checks.expect(rows(metadata.getTableTypes(), "TABLE_TYPE").containsAll(List.of("TABLE", "VIEW", "INDEX", "SEQUENCE")), true);
    }

    private static void columns(DatabaseMetaData metadata) throws Exception {
        List<String> found = rows(metadata.getColumns(null, "public", "meta_order", "%"), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE",
            "DECIMAL_DIGITS", "NULLABLE", "COLUMN_DEF", "ORDINAL_POSITION", "IS_NULLABLE", "IS_AUTOINCREMENT", "REMARKS");
        Checks.expect(found.subList(0, 3), List.of(
            "id " + Types.BIGINT + " int8 19 0 0 null 1 NO YES null",
            "code " + Types.VARCHAR + " varchar 10 0 0 null 2 NO NO its code",
            "total " + Types.NUMERIC + " numeric 12 2 1 1.5 3 YES NO null"));
        Checks.expect(found.subList(3, 6).stream().map(row -> row.split(" ")[0] + " " + row.split(" ")[1] + " " + row.split(" ")[2]).toList(),
            List.of("placed " + Types.TIMESTAMP + " timestamptz", "note " + Types.VARCHAR + " text", "tags " + Types.ARRAY + " _text"));
        Checks.expect(rows(metadata.getColumns(null, null, "meta\\_view", "c%"), "COLUMN_NAME", "TYPE_NAME"), List.of("code varchar"));
        Checks.expect(rows(metadata.getColumns(null, null, "meta_line", "serial%"), "TYPE_NAME", "IS_AUTOINCREMENT"), List.of("serial YES"));
        Checks.expect(rows(metadata.getVersionColumns(null, "public", "meta_order"), "COLUMN_NAME"), List.of("ctid"));
        Checks.expect(rows(metadata.getBestRowIdentifier(null, "public", "meta_line", DatabaseMetaData.bestRowSession, false), "COLUMN_NAME", "DATA_TYPE"),
            List.of("order_id " + Types.BIGINT, "at " + Types.SMALLINT));
    }

    private static void keys(DatabaseMetaData metadata) throws Exception {
        Checks.expect(rows(metadata.getPrimaryKeys(null, "public", "meta_line"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"),
            List.of("order_id 1 meta_line_key", "at 2 meta_line_key"));
        String[] columns = {"PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME", "FKCOLUMN_NAME", "KEY_SEQ", "UPDATE_RULE", "DELETE_RULE", "FK_NAME", "PK_NAME", "DEFERRABILITY"};
        String reference = "meta_order id meta_line order_id 1 " + DatabaseMetaData.importedKeySetNull + " " + DatabaseMetaData.importedKeyCascade
            + " meta_line_order_id_fkey meta_order_pkey " + DatabaseMetaData.importedKeyNotDeferrable;
        Checks.expect(rows(metadata.getImportedKeys(null, null, "meta_line"), columns), List.of(reference));
        Checks.expect(rows(metadata.getImportedKeys(null, null, "meta_order"), columns), List.of());
        Checks.expect(rows(metadata.getExportedKeys(null, null, "meta_order"), columns), List.of(reference));
        Checks.expect(rows(metadata.getCrossReference(null, "public", "meta_order", null, "public", "meta_line"), columns), List.of(reference));
    }

    private static void indexes(DatabaseMetaData metadata) throws Exception {
        String[] columns = {"NON_UNIQUE", "INDEX_NAME", "TYPE", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"};
        int other = DatabaseMetaData.tableIndexOther;
        Checks.expect(rows(metadata.getIndexInfo(null, "public", "meta_line", false, true), columns),
            List.of("f meta_line_key " + other + " 1 order_id A", "f meta_line_key " + other + " 2 at A",
                "t meta_line_amount " + other + " 1 amount A", "t meta_line_amount " + other + " 2 at A"));
        Checks.expect(rows(metadata.getIndexInfo(null, "public", "meta_order", true, true), "INDEX_NAME", "COLUMN_NAME"),
            List.of("meta_order_code_key code", "meta_order_pkey id"));
    }

    private static void types(DatabaseMetaData metadata) throws Exception {
        List<String> types = rows(metadata.getTypeInfo(), "TYPE_NAME", "DATA_TYPE");
        Checks.expect(types.containsAll(List.of("int4 " + Types.INTEGER, "text " + Types.VARCHAR, "numeric " + Types.NUMERIC, "bool " + Types.BIT,
            "bytea " + Types.BINARY, "date " + Types.DATE, "float8 " + Types.DOUBLE, "uuid " + Types.OTHER, "_int4 " + Types.ARRAY)), true);
        Checks.expect(rows(metadata.getSchemas(), "TABLE_SCHEM").containsAll(List.of("information_schema", "pg_catalog", "public")), true);
        Checks.expect(rows(metadata.getSchemas(null, "pub%"), "TABLE_SCHEM"), List.of("public"));
        Checks.expect(rows(metadata.getCatalogs(), "TABLE_CAT").contains("rubato"), true);
        Checks.expect(rows(metadata.getUDTs(null, null, "%", null), "TYPE_NAME").contains("no_such_type"), false);
        Checks.expect(metadata.getUserName(), "rubato");
        Checks.expect(metadata.getMaxColumnNameLength(), 63);
        Checks.expect(Arrays.asList(metadata.getSQLKeywords().split(",")).containsAll(List.of("returning", "ilike", "limit")), true);
        Checks.expect(metadata.getDefaultTransactionIsolation() != Connection.TRANSACTION_NONE, true);
        Checks.expect(rows(metadata.getClientInfoProperties(), "NAME"), List.of("ApplicationName"));
    }

    private static void functions(DatabaseMetaData metadata) throws Exception {
        Checks.expect(rows(metadata.getFunctions(null, "pg_catalog", "lower"), "FUNCTION_SCHEM", "FUNCTION_NAME").contains("pg_catalog lower"), true);
        Checks.expect(rows(metadata.getFunctionColumns(null, "pg_catalog", "now", "%"), "COLUMN_NAME", "TYPE_NAME"), List.of("returnValue timestamptz"));
        Checks.expect(rows(metadata.getProcedures(null, "public", "%"), "PROCEDURE_NAME"), List.of());
        Checks.expect(rows(metadata.getTablePrivileges(null, "public", "meta_order"), "PRIVILEGE", "GRANTEE", "IS_GRANTABLE").contains("SELECT rubato YES"), true);
        Checks.expect(rows(metadata.getColumnPrivileges(null, "public", "meta_order", "code"), "PRIVILEGE", "GRANTEE").contains("UPDATE rubato"), true);
    }

    private static void results(String url) throws Exception {
        try (Connection connection = Checks.connect(url)) {
            Checks.run(connection, TABLES);
            String sql = "select o.id, o.code as c, o.total, count(*) from meta_order o where o.id > ? and o.code = ? group by o.id";
            try (PreparedStatement select = connection.prepareStatement(sql)) {
                ParameterMetaData parameters = select.getParameterMetaData();
                Checks.expect(List.of(parameters.getParameterTypeName(1), parameters.getParameterTypeName(2)), List.of("int8", "text"));
                ResultSetMetaData result = select.getMetaData();
                Checks.expect(List.of(result.getColumnCount(), result.getColumnLabel(2), result.getColumnName(2), result.getColumnTypeName(4)),
                    List.of(4, "c", "c", "int8"));
                Checks.expect(List.of(result.getTableName(1), result.getPrecision(3), result.getScale(3), result.getColumnDisplaySize(2)),
                    List.of("meta_order", 12, 2, 10));
                Checks.expect(List.of(result.isAutoIncrement(1), result.isNullable(1), result.isNullable(3), result.isNullable(4)),
                    List.of(true, ResultSetMetaData.columnNoNulls, ResultSetMetaData.columnNullable, ResultSetMetaData.columnNullableUnknown));
            }
            updatable(connection);
        }
    }

    /** Rows that are changed in the result itself, for which the driver looks for the primary key. */
    private static void updatable(Connection connection) throws SQLException {
        Checks.run(connection, "insert into meta_order (code) values ('a'), ('b')");
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                ResultSet rows = statement.executeQuery("select id, code, note from meta_order order by id")) {
            rows.next();
            rows.updateString("note", "changed");
            rows.updateRow();
            rows.next();
            rows.deleteRow();
        }
        Checks.expect(Checks.number(connection, "select count(*) from meta_order where note = 'changed'"), 1L);
        Checks.expect(Checks.number(connection, "select count(*) from meta_order"), 1L);
    }
}
