@problemName small
@timeStamps false
@missing true
@univariate false
@dimensions 2
@equalLength false
@classLabel true a b
@data
1,2,?:3,4,5:a
1e-5,+3:NaN,.5:b
