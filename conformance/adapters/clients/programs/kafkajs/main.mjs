// kafkajs, as `kafka-eos run --system client` drives it.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
const { Kafka, logLevel } = createRequire(process.cwd() + "/")("kafkajs");

const say = (...words) => console.log(words.join(" "));
const oneLine = (error) => `${error.name} ${error.message}`.replaceAll("\n", " ");

// An application that cannot start its producer tries again.
async function connect(producer, starts = 5) {
  try { await producer.connect(); }
  catch (error) {
    if (starts === 1) throw error;
    await producer.disconnect();
    await new Promise((done) => setTimeout(done, 50));
    await connect(producer, starts - 1);
  }
}

async function play(run, bootstrap, topic, configs, words) {
  const of = Object.fromEntries(configs.split(",").map((pair) => pair.split("=")));
  const retry = { initialRetryTime: Number(of["retry.backoff.ms"]), retries: 8 };
  const requestTimeout = Number(of["request.timeout.ms"]);
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, requestTimeout, retry });
  const transactionalId = of["transactional.id"];
  const producer = kafka.producer({ idempotent: true, transactionalId, allowAutoTopicCreation: true, maxInFlightRequests: 1 });
  await connect(producer);
  let transaction, problem;
  const ends = {
    commit: async () => { if (problem) throw problem; await transaction.commit(); return "committed"; },
    abort: async () => { await transaction.abort(); return "aborted"; },
  };
  for (const [name, value] of words.split(",").map((word) => word.split(":"))) {
    try {
      if (name.startsWith("+")) await new Promise((done) => setTimeout(done, Number(name.slice(1))));
      else if (name === "begin") { problem = undefined; transaction = await producer.transaction(); }
      else if (ends[name]) { say(run, "transaction", value, await ends[name]()); }
      else if (problem && transactionalId) continue;
      else if (name === "offsets") {
        const topics = [{ topic: "input", partitions: [{ partition: 0, offset: value }] }];
        await transaction.sendOffsets({ consumerGroupId: "readers", topics });
      }
      else {
        const message = { topic, acks: -1, messages: [{ partition: Number(name), value }] };
        const [row] = await (transaction ?? producer).send(message);
        say(run, name, value, "stored", row.baseOffset);
      }
    } catch (error) {
      problem = error;
      if (/^\d+$/.test(name)) say(run, name, value, "failed", error.name);
      if (!ends[name]) continue;
      try { say(run, "transaction", value, await ends.abort()); }
      catch { say(run, "transaction", value, "failed", oneLine(error)); break; }
    }
  }
  await producer.disconnect();
}

for await (const line of createInterface({ input: process.stdin })) {
  const run = line.split(" ")[0];
  await play(...line.split(" ")).catch((error) => say(run, "broken", oneLine(error)));
  say(run, "closed");
}
