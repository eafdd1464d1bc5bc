import jakarta.persistence.LockModeType;
import jakarta.persistence.LockTimeoutException;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.PessimisticLockException;
import jakarta.persistence.Tuple;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;

/** What an application on Hibernate does. Prints "name ... ok" or "name ... FAILED (reason)". */
public final class HibernateChecks {
    /** A check: it throws if a promise is broken. */
    private interface Check {
        void run(String url) throws Exception;
    }

    private static final Class<?>[] SHOP = {Model.Customer.class, Model.Purchase.class, Model.Item.class};

    private HibernateChecks() {
    }

    /** Runs every check against the URL. */
    public static void main(String[] arguments) {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("schema created, validated, dropped", HibernateChecks::schema);
        checks.put("schema updated", HibernateChecks::updatedSchema);
        checks.put("objects there and back", HibernateChecks::objects);
        checks.put("queries", HibernateChecks::queries);
        checks.put("many inserts in batches", HibernateChecks::batches);
        checks.put("optimistic locking", HibernateChecks::optimisticLocking);
        checks.put("pessimistic locking", HibernateChecks::pessimisticLocking);
        checks.put("constraints that are broken", HibernateChecks::constraints);
        checks.put("rows scrolled", HibernateChecks::scrolled);
        boolean failed = false;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            try {
                check.getValue().run(arguments[0]);
                System.out.println(check.getKey() + " ... ok");
            } catch (Exception | AssertionError failure) {
                failed = true;
                String cause = failure.getCause() == null ? "" : " because " + failure.getCause().getMessage();
                System.out.println(check.getKey() + " ... FAILED (" + (failure + cause).replaceAll("\\s+", " ") + ")");
            }
        }
        System.exit(failed ? 1 : 0);
    }

    private static SessionFactory factory(String url, String schema, Class<?>... classes) {
        Configuration configuration = new Configuration();
        configuration.setProperty("hibernate.connection.url", url);
        configuration.setProperty("hibernate.connection.pool_size", "4");
        configuration.setProperty("hibernate.hbm2ddl.auto", schema);
        configuration.setProperty("hibernate.hbm2ddl.halt_on_error", "true");
        configuration.setProperty("hibernate.jdbc.batch_size", "20");
        configuration.setProperty("hibernate.jdbc.time_zone", "UTC");
        for (Class<?> mapped : classes) {
            configuration.addAnnotatedClass(mapped);
        }
        return configuration.buildSessionFactory();
    }

    private static void expect(Object found, Object wanted) {
        if (!Objects.deepEquals(found, wanted)) {
            throw new AssertionError(found + " in place of " + wanted);
        }
    }

    private static void schema(String url) {
        factory(url, "create", SHOP).close();
        factory(url, "validate", SHOP).close();
        factory(url, "create-drop", SHOP).close();
        try {
            factory(url, "validate", SHOP).close();
        } catch (RuntimeException missing) {
            expect(missing.getMessage().contains("missing table"), true);
            return;
        }
        throw new AssertionError("tables that were dropped are still there");
    }

    private static void updatedSchema(String url) {
        factory(url, "create", SHOP).close();
        try (SessionFactory later = factory(url, "update", Model.LaterItem.class)) {
            later.inTransaction(session -> {
                expect(session.createQuery("select max(weight) from Item", Double.class).getSingleResult(), null);
            });
        }
        factory(url, "validate", Model.LaterItem.class).close();
    }

    private static Model.Item violin() {
        Model.Item item = new Model.Item("violin", 3);
        item.details = Map.of("strings", 4, "maker", Map.of("town", "Cremona"));
        item.tags = new String[] {"old", "with \"quotes\", and commas"};
        item.picture = new byte[] {0, -1, 10};
        item.description = "grün ☃".repeat(2000);
        return item;
    }

    private static void objects(String url) {
        try (SessionFactory factory = factory(url, "create", SHOP)) {
            factory.inTransaction(session -> {
                Model.Customer ada = new Model.Customer("Ada", "ada@example.org");
                ada.born = LocalDate.of(1815, 12, 10);
                ada.phones.addAll(List.of("1", "2"));
                Model.Item item = violin();
                session.persist(item);
                Model.Purchase purchase = new Model.Purchase(ada, "1234.50");
                purchase.items.add(item);
                ada.purchases.add(purchase);
                session.persist(ada);
            });
            factory.inTransaction(session -> {
                Model.Customer ada = session.createQuery("from Customer where name = :name", Model.Customer.class).setParameter("name", "Ada").getSingleResult();
                expect(ada.born, LocalDate.of(1815, 12, 10));
                expect(List.copyOf(ada.phones).stream().sorted().toList(), List.of("1", "2"));
                Model.Purchase purchase = ada.purchases.get(0);
                expect(purchase.total, new BigDecimal("1234.50"));
                expect(purchase.placed, Instant.parse("2024-02-29T12:00:00.123456Z"));
                expect(purchase.state, Model.State.OPEN);
                Model.Item item = purchase.items.iterator().next();
                expect(item.details.get("maker"), Map.of("town", "Cremona"));
                expect(item.tags, violin().tags);
                expect(item.picture, violin().picture);
                expect(item.description, violin().description);
                purchase.state = Model.State.PAID;
                ada.phones.remove("1");
            });
            factory.inTransaction(session -> {
                Model.Purchase purchase = session.createQuery("from Purchase p join fetch p.customer where p.state = PAID", Model.Purchase.class).getSingleResult();
                expect(purchase.version, 1);
                expect(purchase.customer.phones.size(), 1);
                session.remove(purchase.customer);
            });
            factory.inTransaction(session -> expect(session.createQuery("select count(*) from Purchase", Long.class).getSingleResult(), 0L));
        }
    }

    private static void fill(SessionFactory factory) {
        factory.inTransaction(session -> {
            for (int number = 0; number < 10; number++) {
                Model.Customer customer = new Model.Customer("customer " + number, "c" + number + "@example.org");
                customer.born = LocalDate.of(1990 + number % 3, 1, 1);
                session.persist(customer);
                for (int order = 0; order <= number % 3; order++) {
                    session.persist(new Model.Purchase(customer, number + "." + order));
                }
            }
        });
    }

    private static void queries(String url) {
        try (SessionFactory factory = factory(url, "create", SHOP)) {
            fill(factory);
            factory.inTransaction(session -> {
                List<Tuple> sums = session.createQuery("select c.name as name, count(p) as n, sum(p.total) as total from Customer c left join c.purchases p "
                        + "group by c.name having count(p) > 2 order by c.name", Tuple.class).getResultList();
                expect(sums.stream().map(row -> row.get("name") + " " + row.get("n") + " " + row.get("total")).toList(),
                        List.of("customer 2 3 6.30", "customer 5 3 15.30", "customer 8 3 24.30"));
                expect(session.createQuery("select year(c.born), count(*) from Customer c group by year(c.born) order by 1", Object[].class).getResultList().size(), 3);
                List<String> page = session.createQuery("select upper(c.name) from Customer c where c.mail like :part order by c.id", String.class)
                        .setParameter("part", "%@example.org").setFirstResult(3).setMaxResults(2).getResultList();
                expect(page, List.of("CUSTOMER 3", "CUSTOMER 4"));
                expect(session.createQuery("from Customer c where exists (select 1 from Purchase p where p.customer = c and p.total >= 9)", Model.Customer.class)
                        .getResultList().size(), 1);
                expect(session.createQuery("select c.name from Customer c where c.id in (:ids) order by c.name", String.class).setParameter("ids", List.of(1L, 3L, 99L))
                        .getResultList(), List.of("customer 0", "customer 2"));
                expect(session.createQuery("select case when p.total > 5 then 'dear' else 'cheap' end, count(*) from Purchase p group by 1 order by 1", Object[].class)
                        .getResultList().size(), 2);
                expect(session.createMutationQuery("update Purchase set total = total + 1 where customer.id = 1").executeUpdate(), 1);
                expect(session.createMutationQuery("delete from Purchase p where p.customer.id in (select c.id from Customer c where c.name = 'customer 2')")
                        .executeUpdate(), 3);
                expect(session.createNativeQuery("select coalesce(max(total), 0) from purchases where id = :id", BigDecimal.class).setParameter("id", 1).getSingleResult(),
                        new BigDecimal("1.00"));
            });
            criteria(factory);
        }
    }

    private static void criteria(SessionFactory factory) {
        factory.inTransaction(session -> {
            var builder = session.getCriteriaBuilder();
            var query = builder.createQuery(Model.Customer.class);
            var customer = query.from(Model.Customer.class);
            query.where(builder.and(builder.greaterThan(customer.get("id"), 4L), builder.like(customer.get("name"), "customer%")));
            query.orderBy(builder.desc(customer.get("born")), builder.asc(customer.get("id")));
            expect(session.createQuery(query).setMaxResults(1).getSingleResult().name, "customer 5");
        });
    }

    private static void batches(String url) {
        try (SessionFactory factory = factory(url, "create", SHOP)) {
            factory.inTransaction(session -> {
                for (int number = 0; number < 500; number++) {
                    session.persist(new Model.Item("item " + number, number));
                }
            });
            factory.inTransaction(session -> {
                for (Model.Item item : session.createQuery("from Item where stock < 50", Model.Item.class).getResultList()) {
                    item.stock += 1000;
                }
            });
            factory.inTransaction(session -> {
                expect(session.createQuery("select count(*), sum(stock) from Item", Object[].class).getSingleResult(), new Object[] {500L, 124750L + 50_000L});
            });
        }
    }

    private static void optimisticLocking(String url) {
        try (SessionFactory factory = factory(url, "create", SHOP)) {
            fill(factory);
            try (Session one = factory.openSession()) {
                one.beginTransaction();
                one.find(Model.Purchase.class, 1).total = BigDecimal.ONE;
                factory.inTransaction(two -> two.find(Model.Purchase.class, 1).total = BigDecimal.TEN);
                try {
                    one.getTransaction().commit();
                } catch (RuntimeException refused) {
                    // Either the version is found changed, or the server says that the transaction cannot be placed (40001).
                    boolean version = refused instanceof OptimisticLockException || refused.getCause() instanceof OptimisticLockException;
                    expect(version || refused instanceof PessimisticLockException, true);
                    return;
                }
                throw new AssertionError("a change was lost");
            }
        }
    }

    private static void pessimisticLocking(String url) {
        try (SessionFactory factory = factory(url, "create", SHOP)) {
            fill(factory);
            try (Session holder = factory.openSession(); Session waiter = factory.openSession()) {
                holder.beginTransaction();
                holder.find(Model.Purchase.class, 1, LockModeType.PESSIMISTIC_WRITE);
                waiter.beginTransaction();
                try {
                    waiter.find(Model.Purchase.class, 1, LockModeType.PESSIMISTIC_WRITE, Map.of("jakarta.persistence.lock.timeout", 0));
                    throw new AssertionError("a row was locked twice");
                } catch (PessimisticLockException | LockTimeoutException refused) {
                    waiter.getTransaction().rollback();
                }
                waiter.beginTransaction();
                List<Integer> free = waiter.createQuery("select p from Purchase p where p.id <= 2 order by p.id", Model.Purchase.class)
                        .setLockMode(LockModeType.PESSIMISTIC_WRITE).setHint("jakarta.persistence.lock.timeout", -2).getResultList()
                        .stream().map(purchase -> purchase.id).toList();
                expect(free, List.of(2));
                waiter.getTransaction().rollback();
                holder.getTransaction().commit();
            }
            factory.inTransaction(session -> session.find(Model.Purchase.class, 1, LockModeType.PESSIMISTIC_READ));
        }
    }

    private static void constraints(String url) {
        try (SessionFactory factory = factory(url, "create", SHOP)) {
            fill(factory);
            try {
                factory.inTransaction(session -> session.persist(new Model.Customer("twice", "c1@example.org")));
                throw new AssertionError("a mail is there twice");
            } catch (ConstraintViolationException refused) {
                expect(refused.getSQLState(), "23505");
                expect(refused.getConstraintName().startsWith("customers") || refused.getConstraintName().startsWith("uk"), true);
            }
            try {
                factory.inTransaction(session -> session.createNativeMutationQuery("delete from customers").executeUpdate());
                throw new AssertionError("customers with purchases were deleted");
            } catch (ConstraintViolationException refused) {
                expect(refused.getSQLState(), "23503");
            }
        }
    }

    private static void scrolled(String url) {
        try (SessionFactory factory = factory(url, "create", SHOP)) {
            fill(factory);
            factory.inTransaction(session -> {
                int rows = 0;
                try (var scroll = session.createQuery("from Purchase order by id", Model.Purchase.class).setFetchSize(5).scroll(org.hibernate.ScrollMode.FORWARD_ONLY)) {
                    while (scroll.next()) {
                        rows++;
                    }
                }
                expect(rows, 19);
            });
        }
    }
}
