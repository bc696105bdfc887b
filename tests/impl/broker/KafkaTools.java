import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools in one JVM, which takes seconds to start: a line of standard
 * input has a class and its arguments, with tabs between them; a line of standard output has the
 * exit code and, in base64, what the tool wrote to both of its outputs.
 */
public final class KafkaTools {
    /** A tool's end, which must not be that of the JVM. Some tools catch it, and end again. */
    private static final class Ended extends RuntimeException {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static Integer exitCode;

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (exitCode == null) {
                exitCode = code;
                PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream());
                System.setOut(nowhere);
                System.setErr(nowhere);
            }
            throw new Ended();
        });
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(written, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            exitCode = null;
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            byte[] text = Base64.getEncoder().encode(written.toByteArray());
            int code = exitCode == null ? 0 : exitCode;
            out.println(code + " " + new String(text, StandardCharsets.US_ASCII));
            out.flush();
        }
    }

    private static void run(String name, String[] arguments) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Ended)) {
                throw failed;
            }
        }
    }
}
