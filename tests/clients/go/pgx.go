package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var pgxChecks = []check{
	{"pgx types there and back, prepared and cached", pgxMode(pgx.QueryExecModeCacheStatement, pgxTypes)},
	{"pgx types there and back, described each time", pgxMode(pgx.QueryExecModeDescribeExec, pgxTypes)},
	{"pgx types there and back, descriptions cached", pgxMode(pgx.QueryExecModeCacheDescribe, pgxTypes)},
	{"pgx queries without descriptions", pgxMode(pgx.QueryExecModeExec, pgxPlain)},
	{"pgx queries by the simple protocol", pgxMode(pgx.QueryExecModeSimpleProtocol, pgxPlain)},
	{"pgx rows as structures", pgxMode(pgx.QueryExecModeCacheStatement, pgxStructures)},
	{"pgx batch", pgxMode(pgx.QueryExecModeCacheStatement, pgxBatch)},
	{"pgx batch that fails", pgxMode(pgx.QueryExecModeCacheStatement, pgxFailedBatch)},
	{"pgx CopyFrom and CopyTo", pgxMode(pgx.QueryExecModeCacheStatement, pgxCopy)},
	{"pgx transactions within transactions", pgxMode(pgx.QueryExecModeCacheStatement, pgxTransactions)},
	{"pgx errors and their fields", pgxMode(pgx.QueryExecModeCacheStatement, pgxErrors)},
	{"pgx statements whose table changes", pgxMode(pgx.QueryExecModeCacheStatement, pgxChangedTable)},
	{"pgx notifications", pgxNotifications},
	{"pgx cancelling by context", pgxCancelled},
	{"pgx pool", pgxPool},
}

// pgxMode runs a check on a connection of its own that sends queries in this way.
func pgxMode(mode pgx.QueryExecMode, work func(context.Context, *pgx.Conn)) func(context.Context, string) error {
	return func(ctx context.Context, url string) error {
		settings := got(pgx.ParseConfig(url))
		settings.DefaultQueryExecMode = mode
		conn := got(pgx.ConnectConfig(ctx, settings))
		defer conn.Close(ctx)
		work(ctx, conn)
		return conn.Close(ctx)
	}
}

// executeAll runs statements without parameters.
func executeAll(ctx context.Context, conn *pgx.Conn, statements ...string) {
	for _, sql := range statements {
		got(conn.Exec(ctx, sql))
	}
}

func one[T any](ctx context.Context, conn *pgx.Conn, sql string, arguments ...any) T {
	return got(pgx.CollectExactlyOneRow(got(conn.Query(ctx, sql, arguments...)), pgx.RowTo[T]))
}

// failsWith ends the check unless the error is the server's with this SQLSTATE.
func failsWith(err error, state string) *pgconn.PgError {
	var told *pgconn.PgError
	if !errors.As(err, &told) {
		panic(fmt.Errorf("%v in place of an error %s", err, state))
	}
	expect(told.Code, state)
	return told
}

func pgxTypes(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists typed", `create table typed (id serial primary key, b bool, i2 int2, i4 int4, i8 int8, f4 real,
		f8 float8, n numeric(30, 10), t text, v varchar(20), c char(4), y bytea, d date, tm time, ts timestamp, tz timestamptz, iv interval,
		u uuid, j json, jb jsonb, ai int[], at text[], ad date[])`)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	instant := time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC)
	number := pgtype.Numeric{Int: big.NewInt(-12345678901234), Exp: -4, Valid: true}
	identity := pgtype.UUID{Bytes: [16]byte{1, 2, 3, 15: 255}, Valid: true}
	span := pgtype.Interval{Months: 14, Days: 3, Microseconds: 4_500_000, Valid: true}
	noon := pgtype.Time{Microseconds: 12*3_600_000_000 + 1, Valid: true}
	values := []any{true, int16(math.MinInt16), int32(math.MaxInt32), int64(math.MinInt64), float32(1.5), -0.1, number, "grün ☃ 'quoted'", "text",
		"ab  ", []byte{0, 255, 10}, day, noon, instant, instant, span, identity, map[string]any{"a": []any{1.0, nil}}, map[string]any{"b": "c"},
		[]int32{1, -2, 3}, []string{"x", "y,\"z\"", ""}, []time.Time{day}}
	insert := `insert into typed (b, i2, i4, i8, f4, f8, n, t, v, c, y, d, tm, ts, tz, iv, u, j, jb, ai, at, ad)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`
	for round := 0; round < 3; round++ {
		expect(got(conn.Exec(ctx, insert, values...)).String(), "INSERT 0 1")
	}
	nothing := make([]any, len(values))
	got(conn.Exec(ctx, insert, nothing...))
	rows := got(conn.Query(ctx, "select * from typed where i4 = $1 order by id", int32(math.MaxInt32)))
	count := 0
	for rows.Next() {
		compareTyped(got(rows.Values())[1:], values, instant)
		count++
	}
	must(rows.Err())
	expect(count, 3)
	for _, value := range got(pgx.CollectExactlyOneRow(got(conn.Query(ctx, "select * from typed where i4 is null")), pgx.RowToMap)) {
		if _, isID := value.(int32); !isID {
			expect(value, nil)
		}
	}
}

// compareTyped compares a row with what was stored, in the form in which pgx gives it.
func compareTyped(found, stored []any, instant time.Time) {
	for at, value := range stored {
		switch wanted := value.(type) {
		case time.Time:
			expect(found[at].(time.Time).Equal(wanted), true)
		case pgtype.Numeric:
			expect(got(found[at].(pgtype.Numeric).Float64Value()).Float64, got(wanted.Float64Value()).Float64)
		case pgtype.UUID:
			expect(found[at], wanted.Bytes)
		case []int32:
			expect(found[at], []any{wanted[0], wanted[1], wanted[2]})
		case []string:
			expect(found[at], []any{wanted[0], wanted[1], wanted[2]})
		case []time.Time:
			expect(found[at].([]any)[0].(time.Time).Equal(wanted[0]), true)
		default:
			expect(found[at], value)
		}
	}
}

func pgxPlain(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists plain", "create table plain (id bigint primary key, t text, tz timestamptz, n numeric, a int[])")
	instant := time.Date(2024, 2, 29, 12, 0, 0, 1000, time.UTC)
	for id := int64(1); id <= 3; id++ {
		got(conn.Exec(ctx, "insert into plain values ($1, $2, $3, $4, $5)", id, "it's \\ here", instant, "1.50", []int32{1, 2}))
	}
	var text, number string
	var stored time.Time
	var list []int32
	must(conn.QueryRow(ctx, "select t, tz, n::text, a from plain where id = $1", int64(2)).Scan(&text, &stored, &number, &list))
	expect([]any{text, stored.Equal(instant), number, list}, []any{"it's \\ here", true, "1.50", []int32{1, 2}})
}

func pgxStructures(ctx context.Context, conn *pgx.Conn) {
	type person struct {
		ID    int32
		Name  string
		Email *string `db:"mail"`
	}
	executeAll(ctx, conn, "drop table if exists people", "create table people (id int generated always as identity primary key, name text not null, mail text)")
	mail := "a@b.example"
	insert := "insert into people (name, mail) values (@name, @mail) returning id"
	expect(one[int32](ctx, conn, insert, pgx.NamedArgs{"name": "Ada", "mail": mail}), int32(1))
	expect(one[int32](ctx, conn, insert, pgx.NamedArgs{"name": "Bob", "mail": nil}), int32(2))
	people := got(pgx.CollectRows(got(conn.Query(ctx, "select id, name, mail from people order by id")), pgx.RowToStructByName[person]))
	expect(people, []person{{1, "Ada", &mail}, {2, "Bob", nil}})
	found := got(pgx.CollectRows(got(conn.Query(ctx, "select name from people where id = any($1)", []int32{2, 9})), pgx.RowTo[string]))
	expect(found, []string{"Bob"})
}

func pgxBatch(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists b", "create table b (id int primary key, n int)")
	batch := &pgx.Batch{}
	for id := 0; id < 100; id++ {
		batch.Queue("insert into b values ($1, $2)", id, id*2)
	}
	batch.Queue("select sum(n) from b").QueryRow(func(row pgx.Row) error {
		var sum int64
		must(row.Scan(&sum))
		expect(sum, int64(9900))
		return nil
	})
	must(conn.SendBatch(ctx, batch).Close())
	expect(one[int64](ctx, conn, "select count(*) from b"), int64(100))
}

func pgxFailedBatch(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists b", "create table b (id int primary key, n int)")
	batch := &pgx.Batch{}
	for _, id := range []int{1, 2, 2, 3} {
		batch.Queue("insert into b values ($1, 0)", id)
	}
	failsWith(conn.SendBatch(ctx, batch).Close(), "23505")
	expect(one[int64](ctx, conn, "select count(*) from b"), int64(0))
}

func pgxCopy(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists c", "create table c (id int primary key, t text, n numeric, ts timestamptz, a int[])")
	rows := make([][]any, 2000)
	for at := range rows {
		rows[at] = []any{at, fmt.Sprintf("row\t%d", at), pgtype.Numeric{Int: big.NewInt(int64(at)), Exp: -1, Valid: true}, time.Unix(int64(at), 0), []int32{int32(at), 7}}
	}
	columns := []string{"id", "t", "n", "ts", "a"}
	expect(got(conn.CopyFrom(ctx, pgx.Identifier{"public", "c"}, columns, pgx.CopyFromRows(rows))), int64(2000))
	expect(one[string](ctx, conn, "select sum(n)::text || ' ' || sum(a[1]) || ' ' || max(t) from c"), "199900.0 1999000 row\t999")
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"c"}, columns, pgx.CopyFromRows([][]any{{1, "again", nil, nil, nil}}))
	failsWith(err, "23505")
	var out strings.Builder
	got(conn.PgConn().CopyTo(ctx, &out, "copy (select id, t from c where id < 2 order by id) to stdout (format csv)"))
	expect(out.String(), "0,row\t0\n1,row\t1\n")
}

func pgxTransactions(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists x", "create table x (id int primary key)")
	must(pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(outer pgx.Tx) error {
		got(outer.Exec(ctx, "insert into x values (1)"))
		inner := got(outer.Begin(ctx))
		_, err := inner.Exec(ctx, "insert into x values (1)")
		failsWith(err, "23505")
		_, err = inner.Exec(ctx, "select 1")
		failsWith(err, "25P02")
		must(inner.Rollback(ctx))
		must(pgx.BeginFunc(ctx, outer, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "insert into x values (2)")
			return err
		}))
		return nil
	}))
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into x values (3)")
		return err
	})
	failsWith(err, "25006")
	expect(one[int64](ctx, conn, "select sum(id) from x"), int64(3))
}

func pgxErrors(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists e", "create table e (id int constraint e_key primary key, n int not null constraint positive check (n > 0))",
		"insert into e values (1, 1)")
	_, err := conn.Exec(ctx, "insert into e values ($1, $2)", 1, 1)
	told := failsWith(err, "23505")
	expect([]string{told.SchemaName, told.TableName, told.ConstraintName, told.Detail}, []string{"public", "e", "e_key", "Key (id)=(1) already exists."})
	_, err = conn.Exec(ctx, "insert into e values ($1, $2)", 2, nil)
	expect(failsWith(err, "23502").ColumnName, "n")
	_, err = conn.Exec(ctx, "insert into e values ($1, $2)", 2, 0)
	expect(failsWith(err, "23514").ConstraintName, "positive")
	_, err = conn.Exec(ctx, "select missing from e")
	expect(failsWith(err, "42703").Position, int32(8))
	_, err = conn.Exec(ctx, "select 1 / $1::int", 0)
	failsWith(err, "22012")
}

func pgxChangedTable(ctx context.Context, conn *pgx.Conn) {
	executeAll(ctx, conn, "drop table if exists changed", "create table changed (id int primary key)", "insert into changed values (1)")
	read := func() error {
		_, err := pgx.CollectRows(got(conn.Query(ctx, "select * from changed where id = $1", 1)), pgx.RowToMap)
		return err
	}
	must(read())
	executeAll(ctx, conn, "alter table changed add column t text")
	failsWith(read(), "0A000")
	must(read())
}

func pgxNotifications(ctx context.Context, url string) error {
	listener, teller := got(pgx.Connect(ctx, url)), got(pgx.Connect(ctx, url))
	defer listener.Close(ctx)
	defer teller.Close(ctx)
	executeAll(ctx, listener, "listen news")
	executeAll(ctx, teller, "select pg_notify('news', 'told')")
	heard := got(listener.WaitForNotification(ctx))
	expect([]any{heard.Channel, heard.Payload, heard.PID}, []any{"news", "told", teller.PgConn().PID()})
	return nil
}

func pgxCancelled(ctx context.Context, url string) error {
	holder, waiter := got(pgx.Connect(ctx, url)), got(pgx.Connect(ctx, url))
	defer holder.Close(ctx)
	defer waiter.Close(ctx)
	executeAll(ctx, holder, "drop table if exists q", "create table q (id int primary key)", "insert into q values (1)", "begin",
		"select id from q where id = 1 for update")
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := waiter.Exec(short, "select id from q where id = 1 for update")
	expect(errors.Is(err, context.DeadlineExceeded), true)
	other := got(pgx.Connect(ctx, url))
	defer other.Close(ctx)
	done := make(chan error)
	go func() {
		_, err := other.Exec(ctx, "select id from q where id = 1 for update")
		done <- err
	}()
	time.Sleep(100 * time.Millisecond)
	must(other.PgConn().CancelRequest(ctx))
	failsWith(<-done, "57014")
	executeAll(ctx, holder, "rollback")
	return nil
}

func pgxPool(ctx context.Context, url string) error {
	pool := got(pgxpool.New(ctx, url+"?pool_max_conns=6"))
	defer pool.Close()
	got(pool.Exec(ctx, "drop table if exists hot; create table hot (id int primary key, n int not null); insert into hot values (1, 0)"))
	var group sync.WaitGroup
	failures := make(chan error, 300)
	for n := 0; n < 300; n++ {
		group.Go(func() {
			_, err := pool.Exec(ctx, "update hot set n = n + $1 where id = 1", 2)
			// As any client of a serializable database does.
			for told := (*pgconn.PgError)(nil); errors.As(err, &told) && told.Code == "40001"; {
				_, err = pool.Exec(ctx, "update hot set n = n + $1 where id = 1", 2)
			}
			failures <- err
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		must(err)
	}
	var n int
	must(pool.QueryRow(ctx, "select n from hot").Scan(&n))
	expect(n, 600)
	expect(pool.Stat().TotalConns() <= 6, true)
	return nil
}
