// kafkajs; features.py says what each verb does.
const { readFileSync } = require('fs')
const {
  CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel,
} = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

const PATIENCE = 20000
const [verb, topic, address, ...given] = process.argv.slice(2)
const options = Object.fromEntries(given.map(option => option.split(/=(.*)/s)))
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
// It has gzip; its documentation says how others are added.
const zstd = new Promise(resolve => ZstdCodec.run(codec => resolve(new codec.Simple())))
const added = (compress, decompress) => () => ({
  compress: async encoder => Buffer.from(await compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(await decompress(buffer)),
})
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = added(lz4.compressFrame, lz4.decompressFrame)
CompressionCodecs[CompressionTypes.ZSTD] = added(
  async data => (await zstd).compress(data),
  async data => (await zstd).decompress(data)
)
const kafka = new Kafka({
  brokers: [address],
  logLevel: logLevel.NOTHING,
  retry: { retries: 8, initialRetryTime: 100 },
  ...(options.mechanism && {
    ssl: { ca: [readFileSync(options.ca, 'utf-8')] },
    sasl: {
      mechanism: options.mechanism.toLowerCase(),
      username: options.user,
      password: options.password,
    },
  }),
})

const pause = duration => new Promise(resolve => setTimeout(resolve, duration))

// Wait; what does not come true is seen in the facts.
const until = async isTrue => {
  const end = Date.now() + PATIENCE
  while (!(await isTrue()) && Date.now() < end) await pause(100)
}

// Long enough for a codec to be worth it.
const record = (letter, partition = 0) => ({ value: letter.repeat(100), partition })
const letters = records => records.map(one => one.value.toString()[0]).join(' ')

const connected = async client => {
  await client.connect()
  return client
}
const producer = more => connected(kafka.producer({ allowAutoTopicCreation: false, ...more }))
const write = (writing, records, more) =>
  writing.send({ topic, messages: records, acks: -1, ...more })

// A consumer in a group, which is the only kind; `found` has its records, `share` its partitions.
const join = async (groupId, ofTopic, more) => {
  const member = { found: [], share: 0 }
  const consumer = await connected(
    kafka.consumer({ groupId, heartbeatInterval: 300, allowAutoTopicCreation: false })
  )
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.share = (payload.memberAssignment[ofTopic] || []).length
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    member.crash = payload.error
  })
  await consumer.subscribe({ topics: [ofTopic], fromBeginning: true })
  const eachMessage = async ({ partition, message }) => {
    member.found.push({ ...message, partition })
  }
  await consumer.run({ eachMessage, ...more })
  return Object.assign(member, { consumer })
}

const read = async (ofTopic, count) => {
  const member = await join(`open-reads-${ofTopic}`, ofTopic)
  await until(() => member.found.length === count)
  await member.consumer.disconnect()
  return letters(member.found)
}

const verbs = {
  async metadata() {
    const asking = await connected(kafka.admin())
    const { topics } = await asking.fetchTopicMetadata({ topics: [topic] })
    console.log('partitions', topics[0].partitions.length)
  },

  async admin() {
    const asking = await connected(kafka.admin())
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
    const partitions = async () => {
      const { topics } = await asking.fetchTopicMetadata({ topics: [topic] })
      return topics[0].partitions.length
    }
    const retention = async () => {
      const asked = [{ ...resource, configNames: ['retention.ms'] }]
      const { resources } = await asking.describeConfigs({ resources: asked })
      return resources[0].configEntries[0].configValue
    }
    const configs = [{ name: 'retention.ms', value: '60000' }]
    const wanted = { topic, numPartitions: 2, replicationFactor: 1, configEntries: configs }
    await asking.createTopics({ topics: [wanted] })
    await until(async () => (await partitions()) === 2)
    console.log('partitions', await partitions())
    console.log('retention.ms', await retention())
    const changed = [{ name: 'retention.ms', value: '120000' }]
    await asking.alterConfigs({ resources: [{ ...resource, configEntries: changed }] })
    await until(async () => (await retention()) === '120000')
    console.log('retention.ms', await retention())
    await asking.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    await until(async () => (await partitions()) === 3)
    console.log('partitions', await partitions())
    await asking.deleteTopics({ topics: [topic] })
    await until(async () => !(await asking.listTopics()).includes(topic))
    if (!(await asking.listTopics()).includes(topic)) console.log('deleted')
  },

  async round_trip() {
    const writing = await producer({ idempotent: Boolean(options.idempotent) })
    const compression = CODECS[options.codec || 'none']
    await write(writing, [record('a'), record('b'), record('c')], { compression })
    console.log('read', await read(topic, 3))
  },

  async group() {
    const writing = await producer()
    const records = [0, 1, 2, 3].flatMap(partition => Array(5).fill(record('a', partition)))
    await write(writing, records)
    const one = await join(topic, topic)
    await until(() => one.found.length === 20)
    console.log('alone', one.share)
    console.log('read', one.found.length)
    const two = await join(topic, topic)
    await until(() => one.share === 2 && two.share === 2)
    console.log('shared', one.share, two.share)
    await one.consumer.disconnect()
    await until(() => two.share === 4)
    console.log('after', two.share)
    await two.consumer.disconnect()
  },

  async transactions() {
    const writing = await transactional()
    for (const [letter, end] of [['a', 'commit'], ['b', 'abort'], ['c', 'commit']]) {
      const transaction = await writing.transaction()
      await write(transaction, [record(letter)])
      await transaction[end]()
    }
    console.log('read', await read(topic, 2))
  },

  async fencing() {
    const old = await (await transactional()).transaction()
    await write(old, [record('a')])
    const transaction = await (await transactional()).transaction() // asks for the id only now
    await old.commit().then(
      () => console.log('committed'),
      error => {
        if (!/FENCED|INVALID_PRODUCER_EPOCH/.test(error.type)) throw error
        console.log('fenced')
      }
    )
    await write(transaction, [record('b')])
    await transaction.commit()
    console.log('read', await read(topic, 1))
  },

  async process() {
    await write(await producer(), [record('a'), record('b')])
    const member = await join(topic, topic, { autoCommit: false })
    await until(() => member.found.length === 2)
    const transaction = await (await transactional()).transaction()
    const values = member.found.map(one => record(one.value.toString()[0].toUpperCase()))
    await transaction.send({ topic: `${topic}-out`, messages: values, acks: -1 })
    const offset = String(Number(member.found[1].offset) + 1)
    const offsets = { topics: [{ topic, partitions: [{ partition: 0, offset }] }] }
    await transaction.sendOffsets({ consumerGroupId: topic, ...offsets })
    await transaction.commit()
    console.log('processed', letters(member.found))
    await member.consumer.disconnect()
    console.log('read', await read(`${topic}-out`, 2))
  },

  async refused() {
    await write(await producer(), [record('a')]).catch(error => {
      if (!/Topic authorization failed/.test(error.message)) throw error
      console.log('topic refused')
    })
    const member = await join(topic, options.open)
    await until(() => member.crash)
    if (!/group/i.test(member.crash.message)) throw member.crash
    console.log('group refused')
  },
}

const transactional = () =>
  producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 })

verbs[verb]().then(
  () => process.exit(0),
  error => {
    console.error(`${error.name} ${error.type || ''} ${error.message}`)
    process.exit(1)
  }
)
