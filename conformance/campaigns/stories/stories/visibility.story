# What readers see with two producers, the last stable offset and the aborted list: P begins first
# and ends last, Q is aborted in between, a plain write comes last.
name: visibility_{requests}
each requests: v1 v2
requests: {requests}

p = begin
q = begin
r = begin
a = topic
open p a
open q a
Produce r a 0 plain plain=yes
"both open": readers a -> end 0, aborted nothing, reads nothing
end q abort
"the second aborted": readers a -> end 0, aborted nothing, reads nothing
end p commit
"the first committed": readers a -> end 5, aborted Q from 1, reads value plain
s = begin
open s a
"another one open": readers a -> end 5, aborted Q from 1, reads value plain
end s abort
"and aborted": readers a -> end 7, aborted Q from 1 S from 5, reads value plain
"read from offset 4 on": readers a 4 -> end 7, aborted S from 5, reads nothing
