'use strict';

// What an application on node-postgres does. Prints "name ... ok" or "name ... FAILED (reason)".

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const QueryStream = require('pg-query-stream');

const url = process.argv[2];
const checks = [];

function check(name, work) {
  checks.push([name, work]);
}

/** Runs `work` with a client of its own, which is closed afterwards. */
async function connected(work, options = {}) {
  const client = new Client({ connectionString: url, ...options });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Runs `work` with a pool of its own, which is closed afterwards. */
async function pooled(max, work) {
  const pool = new Pool({ connectionString: url, max });
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
}

/** The error that a query must fail with. */
async function fails(code, promise) {
  try {
    await promise;
  } catch (error) {
    assert.equal(error.code, code, error.message);
    return error;
  }
  throw new Error(`no error ${code}`);
}

check('types as node-postgres reads them', () => connected(async (client) => {
  const { rows: [row] } = await client.query(`select true as b, 7::smallint as i2, -2147483647 as i4, 9223372036854775807 as i8,
    123456789012345678901234.0001 as n, 1.5::real as f4, 'NaN'::float8 as f8, 'grün ☃' as t, 'ab'::char(4) as c,
    '\\x00ff0a'::bytea as y, '2024-02-29 12:00:00.123456+00'::timestamptz as tz, '{"a": [1, null]}'::json as j,
    '{"b": {"c": "d"}}'::jsonb as jb, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as u, null::int as nothing,
    array[1, null, 3] as ai, array['x', 'y,"z"'] as at, array[[1, 2], [3, 4]] as aa, interval '1 day 02:03:04.5' as iv`);
  assert.deepEqual([row.b, row.i2, row.i4, row.i8, row.n], [true, 7, -2147483647, '9223372036854775807', '123456789012345678901234.0001']);
  assert.deepEqual([row.f4, row.t, row.c, row.nothing], [1.5, 'grün ☃', 'ab  ', null]);
  assert.ok(Number.isNaN(row.f8));
  assert.deepEqual(row.y, Buffer.from([0, 255, 10]));
  assert.equal(row.tz.toISOString(), '2024-02-29T12:00:00.123Z');
  assert.deepEqual([row.j, row.jb], [{ a: [1, null] }, { b: { c: 'd' } }]);
  assert.equal(row.u, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
  assert.deepEqual([row.ai, row.at, row.aa], [[1, null, 3], ['x', 'y,"z"'], [[1, 2], [3, 4]]]);
  assert.deepEqual({ ...row.iv }, { days: 1, hours: 2, minutes: 3, seconds: 4, milliseconds: 500 });
}));

check('parameters of every type', () => connected(async (client) => {
  await client.query('drop table if exists typed');
  await client.query(`create table typed (id serial primary key, b boolean, i4 int, i8 bigint, n numeric(20, 4), f8 float8, t text,
    y bytea, d date, tz timestamptz, j jsonb, u uuid, ai int[], at text[])`);
  const when = new Date(Date.UTC(1999, 11, 31, 23, 59, 59, 999));
  const values = [false, 42, '-9223372036854775808', '1.5', -0.1, "it's \\ quoted", Buffer.from([0, 1, 254]), '2024-02-29', when,
    { deep: { list: [1, 'two', null] } }, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', [1, null, -3], ['a"b', 'c,d', '', 'null']];
  const places = values.map((_, at) => `$${at + 1}`).join(', ');
  const insert = `insert into typed (b, i4, i8, n, f8, t, y, d, tz, j, u, ai, at) values (${places}) returning *`;
  const { rows: [row] } = await client.query(insert, values);
  assert.deepEqual([row.b, row.i4, row.i8, row.n, row.f8, row.t], [false, 42, '-9223372036854775808', '1.5000', -0.1, "it's \\ quoted"]);
  assert.deepEqual([row.y, row.tz, row.j], [values[6], when, values[9]]);
  assert.deepEqual([row.u, row.ai, row.at], [values[10].toLowerCase(), [1, null, -3], ['a"b', 'c,d', '', 'null']]);
  const nothing = await client.query(insert, values.map(() => null));
  assert.deepEqual(Object.values(nothing.rows[0]).slice(1), values.map(() => null));
}));

check('binary results', () => connected(async (client) => {
  const text = 'select $1::int as i, $2::text as t, $3::bool as b, $4::float8 as f';
  const { rows: [row] } = await client.query({ text, values: [5, 'x', true, 2.5], binary: true });
  assert.deepEqual([row.i, row.t, row.b, row.f], [5, 'x', true, 2.5]);
}));

check('fields of a result', () => connected(async (client) => {
  await client.query('drop table if exists described; create table described (id int primary key, v varchar(9), n numeric(12, 2))');
  const { fields } = await client.query('select v, id, n, 1 as one from described');
  assert.deepEqual(fields.map(({ name, columnID, dataTypeID, dataTypeModifier }) => [name, columnID, dataTypeID, dataTypeModifier]),
    [['v', 2, 1043, 13], ['id', 1, 23, -1], ['n', 3, 1700, 786438], ['one', 0, 23, -1]]);
  const { rows: [{ oid }] } = await client.query("select 'described'::regclass::oid as oid");
  assert.deepEqual(fields.map(({ tableID }) => tableID), [oid, oid, oid, 0]);
  const listed = await client.query({ text: 'select 1, 2', rowMode: 'array' });
  assert.deepEqual(listed.rows, [[1, 2]]);
}));

check('prepared statements by name', () => connected(async (client) => {
  await client.query('drop table if exists p; create table p (id int primary key, t text)');
  for (let id = 0; id < 30; id += 1) {
    const inserted = await client.query({ name: 'put', text: 'insert into p values ($1, $2)', values: [id, `row ${id}`] });
    assert.deepEqual([inserted.command, inserted.rowCount], ['INSERT', 1]);
  }
  const get = (id) => client.query({ name: 'get', text: 'select * from p where id = $1', values: [id] });
  assert.deepEqual((await get(7)).rows, [{ id: 7, t: 'row 7' }]);
  assert.deepEqual((await get(99)).rows, []);
  await client.query('alter table p add column n int');
  const refused = await fails('0A000', get(7));
  assert.equal(refused.message, 'cached plan must not change result type');
}));

check('several statements in one query', () => connected(async (client) => {
  const results = await client.query("create table if not exists many (id int); insert into many values (1), (2); select 'end' as word");
  assert.deepEqual(results.map(({ command, rowCount }) => [command, rowCount]), [['CREATE', null], ['INSERT', 2], ['SELECT', 1]]);
  assert.deepEqual(results[2].rows, [{ word: 'end' }]);
}));

check('pool', () => pooled(4, async (pool) => {
  await pool.query('drop table if exists hot; create table hot (id int primary key, n int not null); insert into hot values (1, 0)');
  // As any client of a serializable database does.
  const add = () => pool.query('update hot set n = n + 1 where id = 1').catch((error) => {
    assert.equal(error.code, '40001', error.message);
    return add();
  });
  await Promise.all(Array.from({ length: 200 }, add));
  assert.equal((await pool.query('select n from hot')).rows[0].n, 200);
  assert.ok(pool.totalCount <= 4);
  await fails('42P01', pool.query('select * from nothing_there'));
  await fails('22012', pool.query('select 1 / $1::int', [0]));
  assert.equal((await pool.query('select 1 as one')).rows[0].one, 1);
  const client = await pool.connect();
  assert.equal((await client.query('select count(*) from hot')).rows[0].count, '1');
  client.release(true);
}));

check('transactions and savepoints', () => pooled(2, async (pool) => {
  await pool.query('drop table if exists x; create table x (id int primary key)');
  const client = await pool.connect();
  try {
    await client.query('begin');
    await client.query('insert into x values (1)');
    await client.query('savepoint here');
    await fails('23505', client.query('insert into x values (1)'));
    await fails('25P02', client.query('select 1'));
    await client.query('rollback to savepoint here');
    await client.query('insert into x values (2)');
    assert.equal((await pool.query('select count(*)::int as n from x')).rows[0].n, 0);
    await client.query('commit');
    assert.equal((await pool.query('select count(*)::int as n from x')).rows[0].n, 2);
    await client.query('begin');
    await client.query('delete from x');
    await client.query('rollback');
    assert.equal((await pool.query('select count(*)::int as n from x')).rows[0].n, 2);
  } finally {
    client.release();
  }
}));

check('cursor', () => connected(async (client) => {
  const cursor = client.query(new Cursor('select n, n * $1::int as more from generate_series(1, 1000) n', [3]));
  const first = await cursor.read(10);
  assert.deepEqual([first.length, first[9]], [10, { n: 10, more: 30 }]);
  assert.equal((await cursor.read(500)).length, 500);
  await cursor.close();
  const rest = client.query(new Cursor('select n from generate_series(1, 25) n'));
  const sizes = [];
  for (let rows = await rest.read(10); rows.length > 0; rows = await rest.read(10)) {
    sizes.push(rows.length);
  }
  assert.deepEqual(sizes, [10, 10, 5]);
  assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
}));

check('stream of rows', () => connected(async (client) => {
  await client.query('drop table if exists s; create table s (id int primary key, t text)');
  await client.query("insert into s select n, 'row ' || n from generate_series(1, 5000) n");
  const stream = client.query(new QueryStream('select id, t from s where id > $1 order by id', [10], { batchSize: 100 }));
  let expected = 11;
  for await (const row of stream) {
    assert.deepEqual(row, { id: expected, t: `row ${expected}` });
    expected += 1;
  }
  assert.equal(expected, 5001);
  const failing = client.query(new QueryStream('select 100 / (id - 3000) as q from s order by id', [], { batchSize: 50 }));
  await fails('22012', (async () => {
    for await (const row of failing) {
      assert.ok(row.q !== undefined);
    }
  })());
  assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
}));

check('LISTEN and NOTIFY', () => connected((listener) => connected(async (teller) => {
  await listener.query('listen "News"');
  const heard = once(listener, 'notification');
  await teller.query('begin');
  await teller.query("select pg_notify('News', 'told')");
  await teller.query('commit');
  const [{ channel, payload, processId }] = await heard;
  assert.deepEqual([channel, payload, processId], ['News', 'told', teller.processID]);
  const own = once(listener, 'notification');
  await listener.query("notify \"News\", 'to myself'");
  assert.equal((await own)[0].payload, 'to myself');
  await listener.query('unlisten *');
  let late = 0;
  listener.on('notification', () => { late += 1; });
  await teller.query("notify \"News\", 'to nobody'");
  await listener.query('select 1');
  assert.equal(late, 0);
})));

check('errors and their fields', () => connected(async (client) => {
  await client.query('drop table if exists e; create table e (id int constraint e_key primary key, n int not null constraint positive check (n > 0))');
  await client.query('insert into e values (1, 1)');
  const twice = await fails('23505', client.query('insert into e values ($1, $2)', [1, 1]));
  assert.deepEqual([twice.severity, twice.schema, twice.table, twice.constraint, twice.detail],
    ['ERROR', 'public', 'e', 'e_key', 'Key (id)=(1) already exists.']);
  const empty = await fails('23502', client.query('insert into e values (2, null)'));
  assert.deepEqual([empty.table, empty.column], ['e', 'n']);
  assert.equal((await fails('23514', client.query('insert into e values (2, 0)'))).constraint, 'positive');
  const wrong = await fails('42703', client.query('select missing from e'));
  assert.deepEqual([wrong.position, wrong.message], ['8', 'column "missing" does not exist']);
  assert.equal((await fails('42601', client.query('selec 1'))).position, '1');
  await fails('22P02', client.query('select $1::int', ['x']));
  await fails('42P02', client.query('select $1::int', []));
  assert.equal((await client.query('select count(*)::int as n from e')).rows[0].n, 1);
}));

check('notices', () => connected(async (client) => {
  const notices = [];
  client.on('notice', (notice) => notices.push([notice.severity, notice.code, notice.message]));
  await client.query('drop table if exists never_there');
  assert.deepEqual(notices, [['NOTICE', '00000', 'table "never_there" does not exist, skipping']]);
}));

check('timeouts and cancelling', () => connected((holder) => connected(async (waiter) => {
  await holder.query('drop table if exists q; create table q (id int primary key); insert into q values (1)');
  await holder.query('begin');
  await holder.query('select id from q where id = 1 for update');
  await fails('57014', waiter.query('select id from q where id = 1 for update'));
  await waiter.query("set lock_timeout = '100ms'; set statement_timeout = 0");
  await fails('55P03', waiter.query('select id from q where id = 1 for update'));
  await waiter.query('set lock_timeout = 0');
  const waiting = fails('57014', waiter.query('select id from q where id = 1 for update'));
  await new Promise((resolve) => { setTimeout(resolve, 100); });
  await holder.query('select pg_cancel_backend($1)', [waiter.processID]);
  await waiting;
  await holder.query('rollback');
  assert.equal((await waiter.query('select id from q where id = 1 for update')).rowCount, 1);
}, { statement_timeout: 200 })));

check('settings of a connection', () => connected(async (client) => {
  const { rows: [row] } = await client.query(`select current_setting('application_name') as name,
    current_setting('statement_timeout') as time, current_setting('search_path') as path`);
  assert.deepEqual(row, { name: 'node checks', time: '1234ms', path: 'public' });
}, { application_name: 'node checks', statement_timeout: 1234, options: '-c search_path=public' }));

check('lists as parameters', () => connected(async (client) => {
  await client.query('drop table if exists l; create table l (id int primary key, t text)');
  const ids = Array.from({ length: 100 }, (_, n) => n);
  await client.query('insert into l select * from unnest($1::int[], $2::text[])', [ids, ids.map((id) => `row ${id}`)]);
  const { rows } = await client.query('select t from l where id = any($1) order by id', [[3, 5, 500]]);
  assert.deepEqual(rows.map(({ t }) => t), ['row 3', 'row 5']);
  const changed = await client.query('insert into l values (3, $1) on conflict (id) do update set t = excluded.t returning t', ['new']);
  assert.deepEqual([changed.rows, changed.rowCount], [[{ t: 'new' }], 1]);
}));

async function main() {
  let failed = 0;
  for (const [name, work] of checks) {
    try {
      await work();
      console.log(`${name} ... ok`);
    } catch (error) {
      failed += 1;
      const reason = `${error.code ?? ''} ${error.message}`.replace(/\s+/g, ' ').trim().slice(0, 400);
      console.log(`${name} ... FAILED (${reason})`);
    }
  }
  process.exit(failed ? 1 : 0);
}

main();
