import jakarta.persistence.CascadeType;
import jakarta.persistence.CollectionTable;
import jakarta.persistence.Column;
import jakarta.persistence.ElementCollection;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.type.SqlTypes;

/** The tables of a small shop, as an application maps them. */
final class Model {
    private Model() {
    }

    /** A state that is stored by its name. */
    enum State {
        OPEN, PAID
    }

    /** Who orders; its key is an identity column. */
    @Entity(name = "Customer")
    @Table(name = "customers", indexes = @Index(name = "customers_by_name", columnList = "name"))
    static class Customer {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;
        @Column(nullable = false, length = 40)
        String name;
        @Column(unique = true)
        String mail;
        LocalDate born;
        @ElementCollection
        @CollectionTable(name = "phones")
        List<String> phones = new ArrayList<>();
        @OneToMany(mappedBy = "customer", cascade = CascadeType.ALL, orphanRemoval = true)
        List<Purchase> purchases = new ArrayList<>();

        Customer() {
        }

        Customer(String name, String mail) {
            this.name = name;
            this.mail = mail;
        }
    }

    /** An order; its key comes from a sequence in steps, and a version detects that it was changed meanwhile. */
    @Entity(name = "Purchase")
    @Table(name = "purchases")
    static class Purchase {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "purchase_ids")
        @SequenceGenerator(name = "purchase_ids", sequenceName = "purchase_ids", allocationSize = 10)
        Integer id;
        @Version
        int version;
        @ManyToOne(optional = false)
        Customer customer;
        @Enumerated(EnumType.STRING)
        State state = State.OPEN;
        @Column(precision = 12, scale = 2)
        BigDecimal total;
        Instant placed;
        @ManyToMany
        Set<Item> items = new HashSet<>();

        Purchase() {
        }

        Purchase(Customer customer, String total) {
            this.customer = customer;
            this.total = new BigDecimal(total);
            this.placed = Instant.parse("2024-02-29T12:00:00.123456Z");
        }
    }

    /** What is sold; its key is a UUID, and it has a document, an array, bytes and a long text. */
    @Entity(name = "Item")
    @Table(name = "items")
    static class Item {
        @Id
        @GeneratedValue(strategy = GenerationType.UUID)
        UUID id;
        String title;
        int stock;
        @JdbcTypeCode(SqlTypes.JSON)
        Map<String, Object> details;
        String[] tags;
        byte[] picture;
        @Column(columnDefinition = "text")
        String description;
        boolean active = true;

        Item() {
        }

        Item(String title, int stock) {
            this.title = title;
            this.stock = stock;
        }
    }

    /** What a later version of the application makes of items: one column more. */
    @Entity(name = "Item")
    @Table(name = "items")
    static class LaterItem {
        @Id
        UUID id;
        String title;
        int stock;
        Double weight;
    }
}
