package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

var pqChecks = []check{
	{"database/sql on lib/pq", databaseSQL("postgres")},
	{"database/sql on pgx", databaseSQL("pgx")},
	{"lib/pq types there and back as text", pqTypes("")},
	{"lib/pq types there and back as binary", pqTypes("&binary_parameters=yes")},
	{"lib/pq COPY", pqCopy},
	{"lib/pq errors and their fields", pqErrors},
	{"lib/pq Listener", pqListener},
}

// open opens a database with the driver of this name; lib/pq asks for TLS unless it is told not to.
func open(driver, url, options string) *sql.DB {
	return got(sql.Open(driver, url+"?sslmode=disable"+options))
}

func databaseSQL(driver string) func(context.Context, string) error {
	return func(ctx context.Context, url string) error {
		db := open(driver, url, "")
		defer db.Close()
		db.SetMaxOpenConns(4)
		must(db.PingContext(ctx))
		for _, statement := range []string{"drop table if exists g", "create table g (id bigserial primary key, t text, n int, at timestamptz default now())"} {
			got(db.ExecContext(ctx, statement))
		}
		insert := got(db.PrepareContext(ctx, "insert into g (t, n) values ($1, $2) returning id"))
		defer insert.Close()
		for round := int64(1); round <= 20; round++ {
			var id int64
			must(insert.QueryRowContext(ctx, fmt.Sprintf("row %d", round), sql.NullInt64{Int64: round, Valid: round%2 == 0}).Scan(&id))
			expect(id, round)
		}
		changed := got(db.ExecContext(ctx, "update g set n = n + 1 where id <= $1", 10))
		expect(got(changed.RowsAffected()), int64(10))
		rows := got(db.QueryContext(ctx, "select t, n from g where id > $1 order by id", 18))
		defer rows.Close()
		kinds := got(rows.ColumnTypes())
		expect([]string{kinds[0].DatabaseTypeName(), kinds[1].DatabaseTypeName()}, []string{"TEXT", "INT4"})
		var found []string
		for rows.Next() {
			var text string
			var number sql.NullInt64
			must(rows.Scan(&text, &number))
			found = append(found, fmt.Sprint(text, " ", number.Valid, " ", number.Int64))
		}
		must(rows.Err())
		expect(found, []string{"row 19 false 0", "row 20 true 20"})
		return sqlTransactions(ctx, db)
	}
}

func sqlTransactions(ctx context.Context, db *sql.DB) error {
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx := got(db.BeginTx(ctx, &sql.TxOptions{Isolation: level}))
		got(tx.ExecContext(ctx, "insert into g (t) values ('undone')"))
		must(tx.Rollback())
		tx = got(db.BeginTx(ctx, &sql.TxOptions{Isolation: level}))
		got(tx.ExecContext(ctx, "insert into g (t) values ('kept')"))
		must(tx.Commit())
	}
	tx := got(db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}))
	_, err := tx.ExecContext(ctx, "delete from g")
	expect(err != nil, true)
	must(tx.Rollback())
	var kept, undone int
	must(db.QueryRowContext(ctx, "select count(*) filter (where t = 'kept'), count(*) filter (where t = 'undone') from g").Scan(&kept, &undone))
	expect([]int{kept, undone}, []int{4, 0})
	err = db.QueryRowContext(ctx, "select id from g where id = -1").Scan(&kept)
	expect(errors.Is(err, sql.ErrNoRows), true)
	return nil
}

func pqTypes(options string) func(context.Context, string) error {
	return func(ctx context.Context, url string) error {
		db := open("postgres", url, options)
		defer db.Close()
		got(db.ExecContext(ctx, "drop table if exists typed"))
		got(db.ExecContext(ctx, `create table typed (b bool, i8 int8, f8 float8, n numeric, t text, y bytea, d date, tz timestamptz, j jsonb, u uuid,
			ai bigint[], at text[])`))
		instant := time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC)
		got(db.ExecContext(ctx, "insert into typed values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)", true, int64(-1)<<63, -0.1, "1.50", "it's ☃",
			[]byte{0, 255}, instant, instant, `{"a": 1}`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", pq.Array([]int64{1, -2}), pq.Array([]string{"x", "y,\"z\""})))
		var b bool
		var i8 int64
		var f8 float64
		var n, t, j, u string
		var y []byte
		var d, tz time.Time
		var ai []int64
		var at []string
		row := db.QueryRowContext(ctx, "select * from typed where i8 = $1", int64(-1)<<63)
		must(row.Scan(&b, &i8, &f8, &n, &t, &y, &d, &tz, &j, &u, pq.Array(&ai), pq.Array(&at)))
		expect([]any{b, i8, f8, n, t, y, j, u}, []any{true, int64(-1) << 63, -0.1, "1.50", "it's ☃", []byte{0, 255}, `{"a": 1}`,
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"})
		expect([]any{d.Format(time.DateOnly), tz.Equal(instant), ai, at}, []any{"1999-12-31", true, []int64{1, -2}, []string{"x", "y,\"z\""}})
		return nil
	}
}

func pqCopy(ctx context.Context, url string) error {
	db := open("postgres", url, "")
	defer db.Close()
	got(db.ExecContext(ctx, "drop table if exists c"))
	got(db.ExecContext(ctx, "create table c (id int primary key, t text)"))
	tx := got(db.BeginTx(ctx, nil))
	copying := got(tx.PrepareContext(ctx, pq.CopyIn("c", "id", "t")))
	for id := 0; id < 1000; id++ {
		got(copying.ExecContext(ctx, id, fmt.Sprintf("tab\t%d", id)))
	}
	got(copying.ExecContext(ctx))
	must(copying.Close())
	must(tx.Commit())
	var count int
	must(db.QueryRowContext(ctx, "select count(*) from c where t like E'tab\\t%'").Scan(&count))
	expect(count, 1000)
	return nil
}

func pqErrors(ctx context.Context, url string) error {
	db := open("postgres", url, "")
	defer db.Close()
	got(db.ExecContext(ctx, "drop table if exists e"))
	got(db.ExecContext(ctx, "create table e (id int constraint e_key primary key)"))
	got(db.ExecContext(ctx, "insert into e values (1)"))
	_, err := db.ExecContext(ctx, "insert into e values ($1)", 1)
	var told *pq.Error
	expect(errors.As(err, &told), true)
	expect([]string{string(told.Code), told.Code.Name(), told.Table, told.Constraint}, []string{"23505", "unique_violation", "e", "e_key"})
	return nil
}

func pqListener(ctx context.Context, url string) error {
	listener := pq.NewListener(url+"?sslmode=disable", time.Second, time.Second, nil)
	defer listener.Close()
	must(listener.Listen("pq news"))
	db := open("postgres", url, "")
	defer db.Close()
	got(db.ExecContext(ctx, "select pg_notify($1, $2)", "pq news", "told"))
	select {
	case heard := <-listener.Notify:
		expect([]string{heard.Channel, heard.Extra}, []string{"pq news", "told"})
	case <-ctx.Done():
		return ctx.Err()
	}
	return listener.Ping()
}
