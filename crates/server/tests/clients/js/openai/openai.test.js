// OpenAI's containers, with its unmodified client for JavaScript. The server is named by
// OPENAI_BASE_URL and OPENAI_API_KEY.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import OpenAI, { NotFoundError, toFile } from 'openai'

const client = new OpenAI()

test('a container has files, and runs code', async () => {
  const container = await client.containers.create({ name: 'js' })
  const content = await toFile(Buffer.from('a,b\n'), 'in.csv')
  const made = await client.containers.files.create(container.id, { file: content })
  assert.deepEqual([made.path, made.bytes, made.source], ['/mnt/data/in.csv', 4, 'user'])
  const call = await client.post(`/containers/${container.id}/code_interpreter_calls`, {
    body: { code: "open('out', 'w').write('ž😀'); open('in.csv').read()" },
  })
  assert.deepEqual(call.outputs, [{ type: 'logs', logs: "'a,b\\n'\n" }])
  const files = []
  for await (const file of client.containers.files.list(container.id, { limit: 1, order: 'asc' })) {
    files.push(file)
  }
  assert.deepEqual(files.map((file) => file.source), ['user', 'assistant'])
  const where = { container_id: container.id }
  const out = await client.containers.files.content.retrieve(files[1].id, where)
  assert.equal(await out.text(), 'ž😀')
  const other = await client.containers.create({ name: 'other', file_ids: [made.id] })
  const copied = await client.containers.files.create(other.id, { file_id: files[1].id })
  assert.equal(copied.bytes, 6)
  await client.containers.files.delete(made.id, where)
  for (const { id } of [container, other]) await client.containers.delete(id)
  await assert.rejects(client.containers.retrieve(container.id), NotFoundError)
})
